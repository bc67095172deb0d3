"""Work on heavy requests, done in a thread so that the event loop stays free for the others."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from router.contract.exchange import HasBody
from router.contract.request import RequestView

_LIGHT_BYTES, _HEAVY_BYTES, _HEAVY_ITEMS = 1 << 16, 1 << 19, 2_000
"""A body is light up to the first and heavy over the second. In between the number of items decides, once they are read."""


_R = TypeVar("_R", bound=HasBody)
_T = TypeVar("_T")
_More = TypeVarTuple("_More")


class OffLoop:
    """Does work on a request here if the request is light, and in a thread if it is heavy. In plain mode nothing is heavy.

    What it does must be pure, or safe in a thread. There is one thread: for each one that works, the event loop waits up to
    five milliseconds for its turn.
    """

    def __init__(self, *, plain: bool = False) -> None:
        self._is_plain, self._thread = plain, ThreadPoolExecutor(1, "off the loop")

    async def __call__(self, work: Callable[[_R, *_More], _T], *given: *tuple[_R, *_More]) -> _T:
        """`work(*given)`, off the loop if the request that comes first is heavy."""
        if len(given[0].raw) <= _LIGHT_BYTES or not self._is_heavy(given[0]):
            return work(*given)
        return await self.run(work, *given)

    async def read(self, work: Callable[[bytes, *_More], _T], body: bytes, *more: *_More) -> _T:
        """Work on the bytes of a body, in a thread if they are many."""
        return await self.run(work, body, *more) if self.is_large(body) else work(body, *more)

    async def run(self, work: Callable[[*_More], _T], *given: *_More) -> _T:
        """Do work in the thread, however light it is."""
        if self._is_plain:
            return work(*given)
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*given))

    def is_large(self, body: bytes) -> bool:
        """Whether it would hold up the loop to read this."""
        return len(body) > _HEAVY_BYTES and not self._is_plain

    def _is_heavy(self, request: HasBody) -> bool:
        """Whether it would hold up the loop to walk through this."""
        if isinstance(request, RequestView) and len(request.conversation.items) > _HEAVY_ITEMS:
            return not self._is_plain
        return self.is_large(request.raw)

    def close(self) -> None:
        """Let the thread go, after what it does just now."""
        self._thread.shutdown(wait=False)
