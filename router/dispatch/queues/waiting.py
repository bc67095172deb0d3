"""A request that waits for a target's quota: for how long, and what its caller sees meanwhile.

A caller who streams is told that the line is alive. With the first such word the head is out: who serves is then told by a
comment, another target may still be tried, and a failure is an event of the stream.
"""

import asyncio
from collections.abc import Callable

from router.contract.caller import SessionKey
from router.contract.decision import Decision
from router.contract.errors import Superseded, TandemError, TiersBusy
from router.contract.exchange import CancelReason, Exchange, saying_why
from router.contract.facts import Dequeued, Ending, Queued
from router.contract.relay import Flow, Headers, Sink
from router.contract.request import RequestView
from router.contract.target import Target
from router.contract.words import Outcome
from router.dialects.headers import QUEUED, header_text, id_headers
from router.dialects.queued import decision_comment, waiting_comment
from router.dialects.refusals import failure_event
from router.dispatch.context import DispatchContext
from router.dispatch.passed_headers import STREAM_HEADERS
from router.dispatch.queues.queue import TargetQueue
from router.dispatch.queues.waiter import Expected, Permit, Waiter
from router.dispatch.room import is_side_request
from router.dispatch.silence import HEARTBEAT, HEARTBEAT_SECONDS

_LOOK_SECONDS = 0.5
"""How often a request that waits looks whether it is still worth it."""
_LEAST_SECONDS = 0.1
"""The shortest wait that is told."""


class WaitingSink:
    """The way to a caller who streams and waits. Once the head is out, what a target's head says of us becomes a comment."""

    def __init__(self, caller: Sink, context: DispatchContext, view: RequestView, beat_seconds: float) -> None:
        self._caller, self._context, self._view, self._beat_seconds = caller, context, view, beat_seconds
        self.has_head = False
        self.say: Callable[[], bytes] | None = None
        """Tells what the wait looks like, in a comment; None while no queue is waited in."""
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(beat_seconds, self._beat)

    def feed_from(self, flow: Flow) -> None:
        self._caller.feed_from(flow)

    def start(self, status: int, headers: Headers) -> None:
        self.close()
        if not self.has_head:
            self._caller.start(status, headers)
            return
        self._caller.write(decision_comment(headers))

    def write(self, data: bytes) -> None:
        self._caller.write(data)

    def end(self) -> None:
        self._caller.end()

    def fail(self, error: TandemError) -> None:
        self._caller.fail(error)

    def close(self) -> None:
        """No more heartbeats from here: the answer has begun, or there will be none."""
        self._timer.cancel()

    def break_off(self, error: TandemError) -> Ending:
        """End a stream whose head is out and to which no target answered: with an event, and without a proper end."""
        exchange = self._context.exchange
        error.__traceback__ = None  # its frames hold the request, and would be held by it
        self._caller.write(failure_event(error, self._view.dialect, exchange.id))
        self._caller.fail(error)
        return Ending(_outcome(exchange, error), 200, error)

    def _beat(self) -> None:
        """Only who waits in a queue gets the head. While a target is being called it is that target's, unless it is out."""
        self._timer = self._loop.call_later(self._beat_seconds, self._beat)
        if self.say is None and not self.has_head:
            return
        if not self.has_head:
            self.has_head = True
            self._caller.start(200, self._head())
        self._caller.write(self.say() if self.say is not None else HEARTBEAT)

    def _head(self) -> Headers:
        decision = self._context.decision
        return (
            *id_headers(self._context.exchange.id),
            *STREAM_HEADERS,
            QUEUED,
            ("x-tandem-because", header_text(decision.because)),
            ("x-tandem-score", f"{decision.score:.3f}"),
        )


def _outcome(exchange: Exchange, error: TandemError) -> Outcome:
    if isinstance(error, Superseded):
        return Outcome.SUPERSEDED
    return Outcome.CUT_SHORT if exchange.cancelled is CancelReason.STOPPING else Outcome.FAILED


async def await_turn(
    context: DispatchContext, view: RequestView, target: Target, queue: TargetQueue, worth_waiting: Callable[[Decision], float]
) -> Permit:
    """Wait until a target's quota has room for this request. `worth_waiting` says after how long going elsewhere is better.

    Raises `TiersBusy` where that takes longer than the request may wait: at once, if that is to be seen.
    """
    exchange, clock = context.exchange, context.clock
    decision = context.decision
    who = SessionKey(exchange.caller, decision.turn.session)
    waiter = queue.enter(who, decision.prompt_tokens, clock, is_side_request=is_side_request(decision, view))
    if waiter.permit is not None:
        return waiter.permit
    now = clock()
    expected, most = queue.look(waiter, now), min(_most_seconds(context, view, target), worth_waiting(context.decision))
    if expected.seconds > most:
        queue.leave(waiter, is_owed=True)
        raise _busy(target, expected)
    exchange.note(Queued(now, target, expected.position, expected.length, round(expected.seconds, 3)))
    if context.first_call_at is None:
        context.first_call_at = now  # what follows is a wait, and no longer our own time
    sink = _waiting_sink(context, view)
    if sink is not None:
        sink.say = lambda: _say(target, queue.look(waiter, clock()))
    permit = None
    try:
        permit = await _wait(context, queue, waiter, now + most)
    finally:
        if sink is not None:
            sink.say = None
        exchange.note(Dequeued(clock(), target, round(clock() - now, 4), permit is not None))
    if permit is None:
        expected = queue.look(waiter, clock())
        queue.leave(waiter, is_owed=True)
        raise _busy(target, expected)
    return permit


async def _wait(context: DispatchContext, queue: TargetQueue, waiter: Waiter, until: float) -> Permit | None:
    """Wait for the turn; None where it will not come in time, which may be seen before that: others go first who had less."""
    clock = context.clock
    with saying_why(context.exchange):
        try:
            while waiter.permit is None:
                left = until - clock()
                if left <= 0 or queue.look(waiter, clock()).seconds > left + _LOOK_SECONDS:
                    return None
                await asyncio.wait((waiter.let_in,), timeout=min(left, _LOOK_SECONDS))
        except asyncio.CancelledError:
            queue.leave(waiter, is_owed=False)
            raise
    return waiter.permit


def _most_seconds(context: DispatchContext, view: RequestView, target: Target) -> float:
    quota = target.quota
    bounds = (quota.max_wait_seconds if quota is not None else None, view.overrides.max_wait_seconds)
    return min([context.exchange.deadline.left(context.clock()), *(bound for bound in bounds if bound is not None)])


def _waiting_sink(context: DispatchContext, view: RequestView) -> WaitingSink | None:
    """The sink that keeps a caller alive. An answer in one piece has no place for that: its head waits."""
    if isinstance(context.sink, WaitingSink):
        return context.sink
    if not view.is_streaming:
        return None
    context.sink = sink = WaitingSink(context.sink, context, view, HEARTBEAT_SECONDS)
    return sink


def _say(target: Target, expected: Expected) -> bytes:
    return waiting_comment(target.name, expected.position, expected.length, expected.seconds)


def _busy(target: Target, expected: Expected) -> TiersBusy:
    because = expected.because or "is at its quota"
    return TiersBusy(f"{target.name} {because}", retry_after_seconds=max(expected.seconds, _LEAST_SECONDS))
