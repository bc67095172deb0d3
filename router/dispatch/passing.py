"""Routes that are not decided: request and answer pass through unchanged, to the target that the config names."""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from router.contract.entry import Attempt
from router.contract.errors import TandemError, UpstreamTimeout
from router.contract.exchange import Exchange, Passed, cancel_error
from router.contract.facts import AttemptEnded, AttemptOpened, Ending, PassedOn
from router.contract.relay import Flow, Headers, Routed, RouteRequest, Sink, UpstreamCall
from router.contract.sinks import Collected
from router.contract.words import Outcome
from router.dispatch.keys import KeyGuard
from router.dispatch.outgoing import Reachable
from router.dispatch.passed_headers import passed_headers
from router.dispatch.refused import read_refusal

_ABANDONED = "abandoned"
_NOT_MODIFIED, _BAD_REQUEST = 304, 400
_MAX_ERROR_BYTES = 1 << 20
_OUR_KEYS_FAULT = frozenset({401, 402, 403})
"""Callers would blame their own key, which was never sent."""
_OF_CONTENT = frozenset(
    "content-encoding content-disposition content-range accept-ranges etag last-modified cache-control expires".split()
)


async def pass_on(
    exchange: Exchange,
    passed: Passed,
    reachable: Reachable,
    caller: Sink,
    clock: Callable[[], float],
    own: Headers = (),
) -> Ending:
    """Relay a request, with headers of our `own`. Raises its error if nothing of an answer was sent."""
    adapter, target, began, loop = reachable.adapter, reachable.target, clock(), asyncio.get_running_loop()
    assert isinstance(adapter, Routed)  # checked with the config
    sink = _PassingSink(caller, reachable, exchange.id, loop.create_future(), own)
    request = passed.request
    if reachable.trace is not None:
        request = replace(request, headers=(*request.headers, *reachable.trace(exchange)))
    exchange.note(PassedOn(f"pass_through names {target.name} for {passed.route}"))
    exchange.note(AttemptOpened(began, target, "", ()))
    timer = loop.call_later(exchange.deadline.at - began, sink.expire, exchange, clock)
    call: UpstreamCall | None = None
    error: TandemError | None = None
    code: str | None = _ABANDONED
    try:
        call = adapter.open_route(target, request, sink)
        error = await sink.finished
        code = error.code if error is not None else None
    except TandemError as unopened:  # the caller's key is missing
        error, code = unopened, unopened.code
    except asyncio.CancelledError as cancelled:
        told = cancel_error(exchange.cancelled)
        if told is not None and sink.has_started:
            caller.fail(told)
        elif told is not None:
            raise told from cancelled
        raise
    finally:
        timer.cancel()
        if call is not None and not sink.is_over:
            call.cancel()
        now = clock()
        row = Attempt(target.name, sink.status, code, round(now - began, 4))
        # Such answers say nothing of how a target serves others: only a lost connection does.
        exchange.note(AttemptEnded(now, target, row, sink.lost, None, None))
    if error is None:
        return Ending(_outcome_of(sink.status or 0), sink.status or 0)
    if sink.has_started:
        return Ending(Outcome.CUT_SHORT, sink.status or 0, error)
    raise error


async def collect_route(reachable: Reachable, request: RouteRequest, max_bytes: int) -> Collected:
    """The answer to a request that is no turn and is recorded nowhere, as far as it came. Its timeouts bound each wait."""
    adapter, answer = reachable.adapter, Collected(max_bytes)
    assert isinstance(adapter, Routed)
    try:
        call = adapter.open_route(reachable.target, request, answer)
    except TandemError:  # only callers have its key
        return answer
    try:
        await answer.over.wait()
    finally:
        call.cancel()
    return answer


def _outcome_of(status: int) -> Outcome:
    return Outcome.SERVED if status < 400 else Outcome.REFUSED if status < 500 else Outcome.FAILED


class _PassingSink:
    def __init__(
        self,
        caller: Sink,
        reachable: Reachable,
        request_id: str,
        finished: "asyncio.Future[TandemError | None]",
        own: Headers,
    ) -> None:
        self._caller, self._reachable, self._request_id, self.finished = caller, reachable, request_id, finished
        self._own = own
        self.status: int | None = None
        self.lost: TandemError | None = None
        self.has_started = self.is_over = False
        self._begun = b""
        """Bytes that may begin the target's key; of a refusal all, unless it is very long."""

    @property
    def _guard(self) -> KeyGuard:
        return self._reachable.guard

    def feed_from(self, flow: Flow) -> None:
        self._caller.feed_from(flow)

    def start(self, status: int, headers: Headers) -> None:
        self.status, target = status, self._reachable.target
        is_redirect = 300 <= status < 400 and status != _NOT_MODIFIED
        if is_redirect or (status in _OUR_KEYS_FAULT and not target.takes_callers_key):
            self._settle(read_refusal(self._reachable, status, headers, b""))
            return
        self.has_started = True
        named = (
            ("x-tandem-request-id", self._request_id),
            ("x-tandem-tier", str(target.tier)),
            ("x-tandem-target", target.name),
        )
        passed = passed_headers(headers, self._request_id, self._guard, self._may_pass)
        self._caller.start(status, (*named, *self._own, *passed))

    def _may_pass(self, name: str) -> bool:
        return name in _OF_CONTENT or self._reachable.may_pass(name)

    def write(self, data: bytes) -> None:
        if self.finished.done():
            return
        data, guard = self._begun + data, self._guard
        is_refusal = (self.status or 0) >= _BAD_REQUEST
        end = guard.split_end(data)
        if is_refusal and len(data) <= _MAX_ERROR_BYTES:  # gateways quote whole URLs, with secrets in the query
            end = 0
        self._begun, data = data[end:], data[:end]
        if is_refusal or data.rfind(guard.mark) >= 0:
            data = guard.clean(data)
        if data:
            self._caller.write(data)

    def end(self) -> None:
        self.is_over = True
        if self.finished.done():
            return
        if self._begun:
            self._caller.write(self._guard.clean(self._begun))
        self._caller.end()
        self._settle(None)

    def fail(self, error: TandemError) -> None:
        self.is_over = True
        if self.finished.done():
            return
        self.lost = error
        if self.has_started:
            self._caller.fail(error)
        self._settle(error)

    def expire(self, exchange: Exchange, clock: Callable[[], float]) -> None:
        if self.finished.done():
            return
        if left := exchange.find_time_left(clock()):
            self.finished.get_loop().call_later(left, self.expire, exchange, clock)
            return
        self.fail(UpstreamTimeout(self._reachable.target.name, exchange.describe_deadline()))
        self.is_over = False  # the call is still open

    def _settle(self, error: TandemError | None) -> None:
        if not self.finished.done():
            self.finished.set_result(error)
