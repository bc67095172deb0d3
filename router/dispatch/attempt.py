"""One attempt: the request made ready for a target, the call, and how it ended."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from router.contract.decision import Decision
from router.contract.entry import Attempt
from router.contract.errors import CallerKey, TandemError, Unavailable, UpstreamAuth, UpstreamTimeout
from router.contract.exchange import CancelReason, Exchange
from router.contract.facts import AnswerFacts, AttemptEnded, AttemptOpened, Ending
from router.contract.relay import Headers, OutgoingRequest, Sink, UpstreamCall
from router.contract.request import JsonObject, RequestView
from router.contract.target import Target
from router.contract.words import Operation, Outcome, Tier
from router.dispatch.meter import measure_speed, measure_usage
from router.dispatch.outgoing import Outgoing, Reachable, prepare
from router.dispatch.relay import Relay
from router.dispatch.translating import TranslatingSink

_ABANDONED = "abandoned"
"""The error of an attempt that was cut off from our side."""


class Order(NamedTuple):
    """What all attempts of one request share."""

    exchange: Exchange
    decision: Decision
    sink: Sink
    max_bytes: int
    clock: Callable[[], float]
    explanation: JsonObject | None = None
    """The whole decision, where the caller asked for it."""
    carried: Mapping[Tier, Headers] = {}
    """Headers that go with an answer from each tier."""


class Ended(NamedTuple):
    """How an attempt came out. `ending` is set once anything has gone to the caller: then there is no other attempt."""

    attempt: Attempt
    error: TandemError | None
    ending: Ending | None


async def attempt(order: Order, view: RequestView, reachable: Reachable, failed: str) -> Ended:
    """Call one target and relay its answer. Raises a `BadRequest` where the target could only misunderstand the request."""
    exchange, target, clock = order.exchange, reachable.target, order.clock
    is_counted_here = counts_here(view, target)
    outgoing = (
        Outgoing(view.dialect, view.raw, ()) if is_counted_here else prepare(view, reachable, order.decision.prompt_tokens)
    )
    began = clock()
    relay = Relay(
        order.sink,
        exchange,
        _answer_facts(order, target, failed, outgoing.dropped, began),
        dialect=view.dialect,
        is_streaming=view.is_streaming,
        max_bytes=order.max_bytes,
        translator=outgoing.answer,
        reset_headers=reachable.fit.quirks.reset_headers,
        clock=clock,
    )
    exchange.note(AttemptOpened(began, target, failed, outgoing.dropped))
    # A plain timer: asyncio.timeout does the same for three times the cost.
    timer = asyncio.get_running_loop().call_later(exchange.deadline.left(began), _on_deadline, relay, exchange, target)
    call: UpstreamCall | None = None
    ended: AttemptEnded | None = None
    try:
        if is_counted_here:
            _tell_count(relay, order.decision.prompt_tokens)
        else:
            call = _open(order, view, reachable, outgoing, relay)
        error = _name_key(await relay.finished, relay, target)
        ended = _conclude(order, view, relay, began, target, error, error.code if error else None)
    except TandemError as unopened:  # the caller was to bring a key, and did not
        ended = _conclude(order, view, relay, began, target, unopened, unopened.code)
        raise
    except asyncio.CancelledError as cancelled:
        _tell_stopping(exchange, relay, cancelled)
        raise
    finally:
        timer.cancel()
        relay.close()
        if call is not None and not relay.has_served:
            call.cancel()
        exchange.note(ended or _conclude(order, view, relay, began, target, None, _ABANDONED))
    return Ended(ended.attempt, error, _ending(relay, error))


def counts_here(view: RequestView, target: Target) -> bool:
    """No other dialect has a call for counting, and an answer would cost money: the router's own count must do."""
    return view.operation is Operation.COUNT_TOKENS and target.dialect_for(view.dialect) is not view.dialect


def _answer_facts(order: Order, target: Target, failed: str, dropped: tuple[str, ...], now: float) -> AnswerFacts:
    exchange, explanation = order.exchange, order.explanation
    if explanation is not None:
        drops: JsonObject = {target.name: list(dropped)} if dropped else {}
        explanation = {**explanation, "drops": drops}
    first = exchange.first(AttemptOpened)
    overhead_ms = ((first.at if first else now) - exchange.began) * 1000
    carried = order.carried.get(target.tier, ())
    return AnswerFacts(exchange.id, order.decision, target, failed, overhead_ms, explanation, carried)


def _open(order: Order, view: RequestView, reachable: Reachable, outgoing: Outgoing, relay: Relay) -> UpstreamCall:
    sink: Sink = relay
    if outgoing.answer is not None:
        sink = TranslatingSink(
            outgoing.answer,
            relay,
            target=reachable.target.name,
            is_streaming=view.is_streaming,
            max_bytes=order.max_bytes,
        )
    request = OutgoingRequest(view, reachable.target, outgoing.dialect, outgoing.body, order.decision.prompt_tokens)
    return reachable.adapter.open(request, sink)


def _tell_count(sink: Sink, tokens: int) -> None:
    sink.start(200, (("content-type", "application/json"),))
    sink.write(b'{"input_tokens":%d}' % tokens)
    sink.end()


def _name_key(error: TandemError | None, relay: Relay, target: Target) -> TandemError | None:
    """A rejected key is the operator's, or the caller's own where the target takes that."""
    if isinstance(error, UpstreamAuth) and target.takes_callers_key:
        return CallerKey(f'target "{target.name}" rejected your API key ({relay.status})')
    return error


def _tell_stopping(exchange: Exchange, relay: Relay, cancelled: asyncio.CancelledError) -> None:
    """A router that stops tells its caller, who is still there: by a refusal, or in the stream that has begun."""
    if exchange.cancelled is not CancelReason.STOPPING:
        return
    stopping = Unavailable("the router is shutting down")
    if not relay.has_reached_caller:
        raise stopping from cancelled
    relay.fail(stopping)


def _on_deadline(relay: Relay, exchange: Exchange, target: Target) -> None:
    seconds = exchange.deadline.at - exchange.began
    relay.fail(UpstreamTimeout(target.name, f"the request's deadline of {seconds:g} s has passed"))


def _conclude(
    order: Order, view: RequestView, relay: Relay, began: float, target: Target, error: TandemError | None, code: str | None
) -> AttemptEnded:
    now = order.clock()
    usage = measure_usage(
        view.operation,
        relay.usage,
        order.decision.prompt_tokens,
        relay.estimate_output_tokens(),
        has_reached_caller=relay.has_reached_caller,
    )
    # A caller that reads slowly slows the target down: that says nothing of the target's own speed.
    is_targets_own = usage is not None and not usage.is_estimated and not relay.was_paused
    return AttemptEnded(
        now,
        target,
        Attempt(target.name, relay.status, code, round(now - began, 4)),
        error,
        usage,
        measure_speed(usage, relay.first_token_at, now),
        is_targets_own,
    )


def _ending(relay: Relay, error: TandemError | None) -> Ending | None:
    if error is None:
        return Ending(Outcome.SERVED, 200)
    if relay.ended_in_stream is not None:
        return Ending(Outcome.FAILED, 200, error)
    return Ending(Outcome.CUT_SHORT, 200, error) if relay.has_reached_caller else None
