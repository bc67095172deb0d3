"""One attempt: prepare the request for a target, call it, and conclude."""

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from router.contract.caller import SessionKey
from router.contract.entry import PLAN, Attempt, Pace
from router.contract.errors import CallerKey, TandemError, UpstreamAuth
from router.contract.exchange import Exchange, cancel_error
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Ending
from router.contract.relay import Sink, UpstreamCall
from router.contract.request import RequestView
from router.contract.usage import Usage
from router.contract.words import PERSONS_KINDS, AccountFault, Dialect, Operation, Outcome, TurnKind
from router.dialects.headers import sdk_id_headers
from router.dispatch.capped import CappedRelay
from router.dispatch.context import DispatchContext
from router.dispatch.meter import cost_of, is_billed, measure_speed, measure_usage, shows_pace
from router.dispatch.outgoing import Outgoing, Reachable, prepare
from router.dispatch.patience import Patience, max_wait_of
from router.dispatch.relay import Relay

if TYPE_CHECKING:
    from router.dialects.translate.translator import AnswerTranslator

_ABANDONED = "abandoned"
"""The error of an attempt that we cut off."""
_OF_THE_CONVERSATION = (*PERSONS_KINDS, TurnKind.SUBAGENT, TurnKind.COMPACTION)
_OF_CALLERS = {AccountFault.KEY: "rejected your API key", AccountFault.CREDIT: "says that your account has no credit"}
_SERVED = Ending(Outcome.SERVED, 200)


async def attempt(context: DispatchContext, view: RequestView, reachable: Reachable, failed: str) -> Ending | AttemptEnded:
    """The request's ending once anything reached the caller, else the attempt's. Raises `BadRequest` for an unfit request."""
    exchange = context.exchange
    outgoing = await exchange.off_loop(prepare, view, reachable, context.decision.prompt_tokens)
    loop, began = asyncio.get_running_loop(), context.clock()
    opened = AttemptOpened(began, reachable.target, failed, outgoing.dropped)
    relay = Relay(context, opened, view, reachable, context.sink, outgoing.answer, loop.create_future())
    if reachable.needs_more:
        outgoing, relay = _add_more(outgoing, relay, reachable, context)
    if outgoing.asks_usage:
        relay.hides_usage = True
    exchange.note(opened)
    call: UpstreamCall | None = None
    timer: asyncio.TimerHandle | None = None
    ended: AttemptEnded | None = None
    try:
        if outgoing.is_counted_here:
            _tell_count(relay, outgoing.prompt_tokens, exchange.id)
        else:
            sink = relay if outgoing.answer is None else _translated(outgoing.answer, relay, outgoing.dialect)
            call = reachable.adapter.open(outgoing, sink)
            relay.prepare()
        # A plain timer costs a third of asyncio.timeout.
        timer = loop.call_later(exchange.deadline.at - began, relay.expire)
        if view.is_streaming:
            max_wait = max_wait_of(view, reachable.target)
            if max_wait is not None:
                Patience(relay, context.live, max_wait)
        error = await relay.finished
        if error is not None:
            error = _name_key(error, relay)
        elif view.is_streaming:
            reachable.asking.note_end(tells_unasked=relay.timings is not None)
        ended = _conclude(relay, error)
    except TandemError as unopened:  # the caller's key is missing
        ended = _conclude(relay, unopened)
        raise
    except asyncio.CancelledError as cancelled:
        _tell_cancelled(exchange, relay, cancelled)
        if not relay.conclude():
            raise
        if call is not None:
            await relay.await_usage()
            call.cancel()  # the answer is out: nothing else is left to cancel
        error = relay.ended_in_stream
        ended = _conclude(relay, error)
    finally:
        if timer is not None:
            timer.cancel()
        if ended is None or ended.error is not None:
            relay.close()
            if call is not None:
                call.cancel()
        exchange.note(ended or _conclude(relay, None, _ABANDONED))
    return _SERVED if error is None else _ending(relay, error) or ended


def _add_more(outgoing: Outgoing, relay: Relay, reachable: Reachable, context: DispatchContext) -> tuple[Outgoing, Relay]:
    """Add the session and trace that a target gets, and what watches over a cap."""
    if reachable.keeps_sessions:
        outgoing = replace(outgoing, session=_session_of(context.decided))
    if reachable.trace is not None and (headers := reachable.trace(context.exchange)):
        outgoing = replace(outgoing, trace=headers)
    if reachable.fit.cap is not None:
        sink, answer = context.sink, outgoing.answer
        relay = CappedRelay(context, relay.opened, relay.view, reachable, sink, answer, relay.finished)
    return outgoing, relay


def _session_of(decided: Decided) -> SessionKey | None:
    """Side requests get none: they would only disturb the session."""
    return decided.session.key if decided.decision.turn.kind in _OF_THE_CONVERSATION else None


def _translated(answer: "AnswerTranslator", relay: Relay, dialect: Dialect) -> Sink:
    from router.dispatch.translating import TranslatingSink  # only where a client and a target speak different dialects

    return TranslatingSink(
        answer,
        relay,
        relay.finished,
        target=relay.opened.target.name,
        dialect=dialect,
        is_streaming=relay.view.is_streaming,
        max_bytes=relay.context.max_bytes,
    )


def _tell_count(sink: Sink, tokens: int, request_id: str) -> None:
    sink.start(200, (("content-type", "application/json"), *sdk_id_headers(request_id)))
    sink.write(b'{"input_tokens":%d}' % tokens)
    sink.end()


def _name_key(error: TandemError, relay: Relay) -> TandemError:
    """A rejected key is the operator's or, if the target takes it, the caller's own."""
    target = relay.opened.target
    if isinstance(error, UpstreamAuth) and error.fault in _OF_CALLERS and target.takes_callers_key:
        return CallerKey(f'target "{target.name}" {_OF_CALLERS[error.fault]} ({relay.status})')
    return error


def _tell_cancelled(exchange: Exchange, relay: Relay, cancelled: asyncio.CancelledError) -> None:
    """Tell a connected caller why: by a refusal, or in the stream that has begun."""
    error = cancel_error(exchange.cancelled)
    if error is None:
        return
    if not relay.has_reached_caller:
        raise error from cancelled
    relay.fail(error)


def _conclude(relay: Relay, error: TandemError | None, code: str | None = None) -> AttemptEnded:
    opened, usage, first_token_at = relay.opened, relay.usage, relay.first_token_at
    now, target = relay.context.clock(), opened.target
    if usage is None or not usage.output_tokens or relay.view.operation is Operation.COUNT_TOKENS:
        usage = _estimate_usage(relay, error)
    elif first_token_at is not None and (size := relay.token_size).is_due():
        size.learn(relay.written_bytes, usage)
    speed, pace = None, None
    if first_token_at is not None or relay.timings is not None:
        speed, pace = _measure_pace(relay, usage, now)
    if error is not None:
        code = error.code
    row = Attempt(target.name, relay.status, code, round(now - opened.at, 4), usage, cost_of(usage, target.price), pace=pace)
    if target.is_plan and usage is not None:
        row = replace(row, billing=PLAN, list_usd=cost_of(usage, target.list_price))
    return AttemptEnded(now, target, row, error, usage, speed)


def _measure_pace(relay: Relay, usage: Usage | None, now: float) -> tuple[float | None, Pace]:
    """The target's own pace is by the engine's clock, if it reports that."""
    opened, timings, first_token_at, prefill, ttft = relay.opened, relay.timings, relay.first_token_at, None, None
    speed = own = measure_speed(usage, first_token_at, now)
    writing_seconds = 0.0
    if first_token_at is not None:
        ttft, writing_seconds = round(first_token_at - opened.at, 4), now - first_token_at
    if timings is not None:
        own, prefill = timings.tokens_per_second, timings.prefill_tokens_per_second
    elif relay.was_paused or not shows_pace(usage, relay.frames_seen, writing_seconds):
        own = None  # a slow reader slows the target down
    return speed, Pace(opened.target.model, ttft, own and round(own, 1), prefill and round(prefill, 1))


def _estimate_usage(relay: Relay, error: TandemError | None) -> Usage | None:
    tokens, seen = relay.context.decision.prompt_tokens, relay.estimate_output_tokens()
    return measure_usage(relay.view.operation, relay.usage, tokens, seen, is_billed=is_billed(relay.status, error))


def _ending(relay: Relay, error: TandemError) -> Ending | None:
    if relay.ended_in_stream is not None:
        return Ending(Outcome.FAILED, 200, error)
    return Ending(Outcome.CUT_SHORT, 200, error) if relay.has_reached_caller else None
