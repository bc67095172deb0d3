"""Holds the end of an answer back until a shared store confirmed the request's writes.

A client continues as soon as it has the last bytes, perhaps at another router, which must find what this one wrote. Writes over
two connections are not ordered, so the store has to confirm them.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import cache, partial
from typing import Any

from router.contract.errors import TandemError
from router.contract.exchange import Exchange
from router.contract.relay import Flow, Headers
from router.contract.sinks import AnswerFact, AnswerSink

HOLD_SECONDS = 0.04
"""Longest hold. An answer that waited in vain is counted, and leaves."""
_LOOKS = 4
"""After a stall the timer may fire before a pending reply was read, so it waits in four steps."""
_may_end = re.compile(rb'\[DONE\]|response\.(?:completed|incomplete|failed)|message_stop|"(?:finish|stop)_reason": ?"').search
"""Finds what clients take for the end of a stream. A false match in a text costs that piece a trip to the store."""


class AcknowledgedSink:
    """Holds pieces back while a write is unconfirmed.

    A session is written right after the first piece, which waits only if it may be the last; a response is written before its
    last piece. So a stream may wait at its second and its last piece. A whole answer waits until its request is settled, when
    its session is written.
    """

    def __init__(
        self,
        caller: AnswerSink,
        unconfirmed: Counter[str],
        loop: asyncio.AbstractEventLoop,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self._caller, self._unconfirmed, self._loop, self._seconds = caller, unconfirmed, loop, hold_seconds
        self._waiting: dict[asyncio.Future[Any], str] = {}
        self._held: list[Callable[[], None]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._released: asyncio.Future[None] | None = None
        self._is_whole = self._has_written = self._is_settled = False
        self._looks = 0

    @property
    def has_started(self) -> bool:
        return self._caller.has_started

    def feed_from(self, flow: Flow) -> None:
        self._caller.feed_from(flow)

    def start(self, status: int, headers: Headers) -> None:
        self._is_whole = "event-stream" not in dict(headers).get("content-type", "")
        self._is_settled = self._is_settled or status // 100 != 2  # a refusal changes nothing shared
        self._caller.start(status, headers)

    def tell(self, fact: AnswerFact) -> None:
        if self._held is not None:
            self._held.append(partial(self._caller.tell, fact))
        else:
            self._caller.tell(fact)

    def write(self, data: bytes) -> None:
        if self._held is not None:
            self._held.append(partial(self._caller.write, data))
        elif self._waiting or (not self._is_settled and (self._is_whole or self._may_be_last(data))):
            self._hold(partial(self._caller.write, data))
        else:
            self._caller.write(data)

    def end(self) -> None:
        if self._held is not None:
            self._held.append(self._caller.end)
        elif self._waiting:
            self._hold(self._caller.end)
        else:
            self._caller.end()

    def fail(self, error: TandemError) -> None:
        self.release()
        self._caller.fail(error)

    def wait_for(self, kind: str, written: "asyncio.Future[Any]") -> None:
        self._has_written = True
        self._waiting[written] = kind
        written.add_done_callback(self._confirm)

    async def wait(self) -> None:
        """Called when the request is settled: return once nothing is held back."""
        self._is_settled = True
        if self._held is None:
            return
        if self._timer is None:
            self._look()
        if self._held is not None:
            self._released = self._loop.create_future()
            await self._released

    def release(self) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        for act in held:
            act()
        if self._released is not None and not self._released.done():
            self._released.set_result(None)

    def _may_be_last(self, data: bytes) -> bool:
        return not self._has_written and _may_end(data) is not None

    def _hold(self, act: Callable[[], None]) -> None:
        self._held, self._timer, self._looks = [act], None, 0
        if self._is_whole and not self._is_settled:
            return
        if self._waiting:
            self._look()
        else:
            self._loop.call_soon(self._look)  # this piece's changes are written right after it

    def _look(self) -> None:
        if not self._waiting:
            self.release()
        elif self._looks < _LOOKS:
            self._looks += 1
            self._timer = self._loop.call_later(self._seconds / _LOOKS, self._look)
        else:
            self._give_up()

    def _confirm(self, written: "asyncio.Future[Any]") -> None:
        kind = self._waiting.pop(written, None)
        if (written.cancelled() or written.exception() is not None) and kind is not None:
            self._unconfirmed[kind] += 1
        if not self._waiting and (self._is_settled or not self._is_whole):
            self.release()

    def _give_up(self) -> None:
        self._unconfirmed.update(self._waiting.values())
        self._waiting.clear()
        self.release()


Serve = Callable[[Exchange, AnswerSink], Coroutine[Any, Any, None]]


def acknowledge(serve: Serve, unconfirmed: Counter[str] | None) -> Serve:
    """Link that returns once the whole answer has left; `serve` itself if nothing is shared (None)."""
    if unconfirmed is None:
        return serve
    loop = cache(asyncio.get_running_loop)  # a system call each time

    async def serve_acknowledged(exchange: Exchange, caller: AnswerSink) -> None:
        if exchange.arrival.passed is not None:  # changes nothing shared
            await serve(exchange, caller)
            return
        exchange.confirming = sink = AcknowledgedSink(caller, unconfirmed, loop())
        try:
            await serve(exchange, sink)
            await sink.wait()
        finally:
            sink.release()

    return serve_acknowledged
