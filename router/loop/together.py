"""Requests that come at about the same time take each step together, one right after another.

Running the same step for several requests in a row halves its cost: code and data are still cached.
"""

import asyncio
import sys
import types
from asyncio import get_running_loop
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeVar

_T = TypeVar("_T")
_MAX_WAITING = 32
"""When this many are here, nobody waits for more."""


class Gathering:
    """Where they wait for each other, until a turn of the event loop brings nobody new: then all go on."""

    def __init__(self, *, plain: bool = False) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._several = sys.maxsize if plain else 2
        self.has_several = not plain
        """Whether several requests were inside when the last one came. One that is alone has nobody to wait for."""

    def count(self, in_flight: int) -> bool:
        """Note how many requests are inside. Returns whether the newest takes its steps together with the others."""
        self.has_several = has_several = in_flight >= self._several
        return has_several

    def join(self) -> asyncio.Future[None]:
        """Wait with the others. The future is done when all go on."""
        loop, waiting = asyncio.get_running_loop(), self._waiting
        turn = loop.create_future()
        waiting.append(turn)
        if len(waiting) == 1:
            loop.call_soon(self._look, loop, 0)
        return turn

    def _look(self, loop: asyncio.AbstractEventLoop, before: int) -> None:
        waiting = self._waiting
        if before < len(waiting) < _MAX_WAITING:
            loop.call_soon(self._look, loop, len(waiting))
            return
        self._waiting = []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    @staticmethod
    @types.coroutine
    def catch_up() -> Generator[None, None, None]:
        """Between two steps: let the others take the first one too."""
        yield


class Outbox:
    """Sends the first thing in a turn of the event loop at once, and all others together when the turn is over.

    Sending is the kernel's work, which evicts our own code and data from the processor's caches. What a request sends that is
    alone leaves at once, without a look at the end of the turn.
    """

    def __init__(self, gathering: Gathering | None = None) -> None:
        self._gathering = gathering or Gathering()
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._has_sent = False

    def put(self, send: Callable[[_T], None], what: _T, later: Callable[[_T], None] | None = None) -> None:
        """Send this, and not before what was put here earlier: with `later` if it has to wait."""
        if not self._gathering.has_several and not self._waiting:
            send(what)
            return
        if self._has_sent:
            self._waiting.append((later or send, what))
            return
        send(what)
        get_running_loop().call_soon(self.empty)
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
