"""Requests that come at about the same time take the steps of the road together, one right after another.

The second of them pays half for a step, and so do all after it: the processor still has its code at hand.
"""

import asyncio
import types
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from router.contract.exchange import Exchange

_T = TypeVar("_T")
_MOST = 32
"""When so many are here, nobody waits for more."""


class Gathering:
    """Where they wait for each other. Nobody waits while nothing happens: when a turn of the loop brought nobody, all go on."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def admit(self, exchange: Exchange) -> None:
        """Have a request take its steps together with the others."""
        exchange.gather, exchange.catch_up = self.join, let_others_catch_up

    def join(self) -> asyncio.Future[None]:
        """Come in. What is returned is over when all go on."""
        loop, waiting = asyncio.get_running_loop(), self._waiting
        place = loop.create_future()
        waiting.append(place)
        if len(waiting) == 1:
            loop.call_soon(self._look, loop, 0)
        return place

    def _look(self, loop: asyncio.AbstractEventLoop, before: int) -> None:
        waiting = self._waiting
        if before < len(waiting) < _MOST:
            loop.call_soon(self._look, loop, len(waiting))
            return
        self._waiting = []
        for place in waiting:
            if not place.done():
                place.set_result(None)


@types.coroutine
def let_others_catch_up() -> Generator[None, None, None]:
    """Between two steps: let the others take the first one too."""
    yield


class Outbox:
    """What goes out in one turn of the loop: the first at once, all others one right after another when the turn is over.

    To send is the kernel's work, which takes the processor's caches from ours.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._has_sent = False

    def put(self, send: Callable[[_T], None], what: _T) -> None:
        """Send this, and not before what was put here earlier."""
        if self._has_sent:
            self._waiting.append((send, what))
            return
        send(what)
        asyncio.get_running_loop().call_soon(self.empty)
        self._has_sent = True

    def empty(self) -> None:
        """Send all that waits."""
        waiting = self._waiting
        while waiting:
            send, what = waiting.popleft()
            try:
                send(what)
            except Exception as error:  # noqa: BLE001  what cannot be sent to one must not cost the others
                told = {"message": "something could not be sent", "exception": error}
                asyncio.get_running_loop().call_exception_handler(told)
        self._has_sent = False
