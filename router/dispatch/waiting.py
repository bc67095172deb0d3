"""Waits before a call, for room in a target's quota: how long, and what the caller sees.

A streaming caller gets reports of the wait, which keep the connection alive. The first one sends the head: after it the serving
target is a separate fact, another target may still be tried, and a failure is an event of the stream.
"""

import asyncio
from collections.abc import Callable

from router.contract.caller import SessionKey
from router.contract.clock import CLOCK
from router.contract.decision import Decision
from router.contract.errors import Superseded, TandemError, TiersBusy
from router.contract.exchange import CancelReason, Exchange, saying_why
from router.contract.facts import Dequeued, Ending, Queued
from router.contract.relay import Headers
from router.contract.request import RequestView
from router.contract.sinks import AnswerSink, Serving, Waiting, WatchedSink
from router.contract.target import Target
from router.contract.words import Operation, Outcome, TurnKind
from router.dialects.headers import QUEUED, header_text, id_headers
from router.dialects.refusals import failure_event
from router.dialects.table import SPECS
from router.dispatch.context import DispatchContext
from router.dispatch.passed_headers import STREAM_HEADERS
from router.dispatch.streaming import HEARTBEAT, HEARTBEAT_SECONDS
from router.limits.callers import Holding
from router.limits.queue import Expected, Permit, TargetQueue, Waiter

_LOOK_SECONDS = 0.5
"""How often a waiting request checks whether waiting still pays."""
_MIN_SECONDS, _LEAST_SECONDS = 0.1, 0.001


class WaitingSink(WatchedSink):
    """Sink for a request that may queue. Once the head is out, a target's head becomes a fact."""

    def __init__(
        self, caller: AnswerSink, exchange: Exchange, decision: Decision, view: RequestView, holding: Holding | None = None
    ) -> None:
        super().__init__(caller)
        self._exchange, self._decision, self._view, self._holding = exchange, decision, view, holding
        self.has_head = False
        self._say: Callable[[], Waiting] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin_wait(self, say: Callable[[], Waiting]) -> None:
        """Report the wait by `say` to keep a stream alive. A whole answer has no room for it."""
        if self._view.is_streaming:
            self._say = say
            if self._timer is None:
                self._set_timer()

    def end_wait(self) -> None:
        self._say = None

    def start(self, status: int, headers: Headers) -> None:
        self.close()
        if self.has_head:
            self.tell(Serving(headers))
        else:
            super().start(status, headers)

    def close(self) -> None:
        """Stop heartbeats: the answer began, or there will be none."""
        if self._timer is not None:
            self._timer.cancel()

    def break_off(self, error: TandemError) -> Ending:
        """End a stream whose head is out and which no target answered: with an error event, without a proper end."""
        self._caller.write(failure_event(error.without_frames(), self._view.dialect, self._exchange.id))
        self._caller.fail(error)
        return Ending(_outcome(self._exchange, error), 200, error)

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        """Only a wait in a queue sends the head; during a call the head is the target's."""
        self._set_timer()
        if self._say is not None:
            if not self.has_head:
                self.has_head = True
                self._caller.start(200, self._head())
            self.tell(self._say())
        elif self.has_head:
            self.write(HEARTBEAT)

    def _head(self) -> Headers:
        decision, holding = self._decision, self._holding
        return (
            *id_headers(self._exchange.id),
            *STREAM_HEADERS,
            QUEUED,
            ("x-tandem-because", header_text(decision.because)),
            ("x-tandem-score", f"{decision.score:.3f}"),
            *(holding.told if holding is not None else ()),
        )


def _outcome(exchange: Exchange, error: TandemError) -> Outcome:
    if isinstance(error, Superseded):
        return Outcome.SUPERSEDED
    return Outcome.CUT_SHORT if exchange.cancelled is CancelReason.STOPPING else Outcome.FAILED


def is_side_request(decision: Decision, view: RequestView) -> bool:
    """Whether the client sent it in addition to a person's turn. Completions while typing belong to no turn."""
    is_conversation = view.operation is Operation.CREATE and SPECS[view.dialect].is_conversation
    return is_conversation and decision.turn.kind is TurnKind.SIDE


async def await_turn(
    context: DispatchContext, view: RequestView, target: Target, queue: TargetQueue, sink: WaitingSink | None
) -> Permit:
    """Wait for room in a quota. Raises `TiersBusy`, at once if foreseeable, if that takes too long or is not worth it."""
    exchange, clock, decision = context.exchange, context.clock, context.decision
    who = SessionKey(exchange.caller, decision.turn.session)
    is_job = exchange.arrival.job is not None
    is_side = is_side_request(decision, view) and not is_job
    waiter = queue.hold(who, decision.prompt_tokens, is_side_request=is_side, is_background=is_job)
    if waiter.permit is not None:
        return waiter.permit
    now = clock()
    expected, max_wait = queue.look(waiter, now), _max_wait(context, view, target)
    if expected.seconds > max_wait:
        queue.leave(waiter)
        raise _busy(target, expected)
    exchange.note(Queued(now, target, expected.position, expected.length, round(expected.seconds, 3)))
    if sink is not None:
        sink.begin_wait(lambda: _say(target, queue.look(waiter, clock())))
    permit = None
    try:
        permit = await _wait(context, queue, waiter, now, max_wait)
    finally:
        if sink is not None:
            sink.end_wait()
        exchange.note(Dequeued(clock(), target, round(clock() - now, 4), permit is not None))
    if permit is None:
        expected = queue.look(waiter, clock())
        queue.leave(waiter)
        raise _busy(target, expected)
    return permit


async def _wait(context: DispatchContext, queue: TargetQueue, waiter: Waiter, began: float, max_wait: float) -> Permit | None:
    """None if the turn will not come in time. That may show early: requests of other callers may go first."""
    clock = context.clock
    with saying_why(context.exchange):
        try:
            while waiter.permit is None:
                left = max_wait - CLOCK.ran(began, clock())
                if left < _LEAST_SECONDS or queue.look(waiter, clock()).seconds > left + _LOOK_SECONDS:
                    return None
                await asyncio.wait((waiter.let_in,), timeout=min(left, _LOOK_SECONDS))
        except asyncio.CancelledError:
            queue.leave(waiter)
            raise
    return waiter.permit


def _max_wait(context: DispatchContext, view: RequestView, target: Target) -> float:
    """Background work is limited only by its deadline and its caller."""
    left, worth = context.exchange.deadline.left(context.clock()), context.decided.worth_waiting_seconds
    if context.exchange.arrival.job is not None:
        asked = view.overrides.max_wait_seconds
        return left if asked is None else min(left, asked)
    bounds = (target.max_wait_seconds, view.overrides.max_wait_seconds)
    return min([left, worth, *(bound for bound in bounds if bound is not None)])


def _say(target: Target, expected: Expected) -> Waiting:
    return Waiting(target.name, expected.position, expected.length, expected.seconds)


def _busy(target: Target, expected: Expected) -> TiersBusy:
    because = expected.because or "is at its quota"
    return TiersBusy(f"{target.name} {because}", retry_after_seconds=max(expected.seconds, _MIN_SECONDS))
