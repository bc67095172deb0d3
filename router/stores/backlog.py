"""Responses that a place could not take yet. They are offered to it again every second, until it takes them."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

from router.contract.caller import Caller
from router.contract.stores import StoredResponse, StoreUnusable
from router.loop.tasks import spawn

_RETRY_SECONDS = 1.0
_MAX_BYTES = 64 << 20
Key = tuple[Caller, str]


class Backlog:
    """At most 64 MiB. The oldest are dropped first, and `on_dropped` is called for each."""

    def __init__(
        self,
        write: Callable[[StoredResponse], Awaitable[None]],
        on_dropped: Callable[[], None] = lambda: None,
        *,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        """`write` raises `StoreUnusable` where the place still cannot take a response."""
        self._write, self._on_dropped, self._max_bytes = write, on_dropped, max_bytes
        self._waiting: OrderedDict[Key, StoredResponse] = OrderedDict()
        self._bytes = 0
        self._retrying: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, response: StoredResponse) -> None:
        """Have a response written later, in the place of one with the same id."""
        key = response.caller, response.id
        self.remove(key)
        self._waiting[key] = response
        self._bytes += len(response.raw)
        while self._bytes > self._max_bytes:
            self.remove(next(iter(self._waiting)))
            self._on_dropped()
        if self._retrying is None:
            self._retrying = spawn(self._retry(), name="write responses again")

    def remove(self, key: Key) -> None:
        """Forget a response: it was written, or is not to be."""
        response = self._waiting.pop(key, None)
        if response is not None:
            self._bytes -= len(response.raw)

    async def close(self) -> None:
        """Try once more."""
        if self._retrying is not None:
            self._retrying.cancel()
            await asyncio.wait([self._retrying])
        await self._flush()

    async def _retry(self) -> None:
        while self._waiting:
            await asyncio.sleep(_RETRY_SECONDS)
            await self._flush()
        self._retrying = None

    async def _flush(self) -> None:
        """Write all, up to the first that is refused: that one comes last the next time, in case it is the fault of it."""
        with suppress(StoreUnusable):
            while self._waiting:
                key, response = next(iter(self._waiting.items()))
                self._waiting.move_to_end(key)
                await self._write(response)
                if self._waiting.get(key) is response:
                    self.remove(key)
