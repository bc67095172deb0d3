"""Writes that a shared store has not taken yet, retried every second and when the store is back."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from router.contract.stores import StoreUnusable
from router.loop.supervisor import supervise
from router.loop.tasks import spawn

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
_RETRY_SECONDS = 1.0
_MAX_BYTES = 64 << 20


class Outbox(Generic[Key, Value]):
    """The newest value per key, 64 MiB at most. The oldest are dropped first, each reported to `on_dropped`."""

    def __init__(
        self,
        write: Callable[[Key, Value], Awaitable[object]],
        size_of: Callable[[Value], int] = lambda value: 0,
        on_dropped: Callable[[], None] = lambda: None,
        *,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        """`write` raises `StoreUnusable` while the store refuses a value."""
        self._write, self._size_of, self._on_dropped, self._max_bytes = write, size_of, on_dropped, max_bytes
        self.waiting: OrderedDict[Key, Value] = OrderedDict()
        self._bytes = 0
        self._retrying: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, key: Key, value: Value) -> None:
        """Replaces an earlier value of its key."""
        self.remove(key)
        self.waiting[key] = value
        self._bytes += self._size_of(value)
        while self._bytes > self._max_bytes:
            self.remove(next(iter(self.waiting)))
            self._on_dropped()
        if self._retrying is None:
            self._retrying = supervise(self._retry, name="write to a shared store again")

    def remove(self, key: Key) -> None:
        if key in self.waiting:
            self._bytes -= self._size_of(self.waiting.pop(key))

    def retry(self) -> None:
        if self.waiting:
            spawn(self._flush(), name="write to a shared store now")

    async def close(self) -> None:
        if self._retrying is not None:
            self._retrying.cancel()
            await asyncio.wait([self._retrying])
        await self._flush()

    async def _retry(self) -> None:
        while self.waiting:
            await asyncio.sleep(_RETRY_SECONDS)
            await self._flush()
        self._retrying = None

    async def _flush(self) -> None:
        """Write until one is refused. That one moves to the end, in case it is to blame."""
        with suppress(StoreUnusable):
            while self.waiting:
                key, value = next(iter(self.waiting.items()))
                self.waiting.move_to_end(key)
                await self._write(key, value)
                if self.waiting.get(key) is value:
                    self.remove(key)
