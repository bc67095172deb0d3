"""Small records at hand, changed by pure steps and stored by version: no step is lost, in whichever order a store answers.

A step is taken at once on what is at hand, and is remembered until it is stored. Where the store has a newer version, that one
is loaded and the steps are taken again on it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from router.contract.stores import SessionStore
from router.loop.tasks import spawn_started

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Step = Callable[[Value], Value]
_SOON_SECONDS = 0.05
"""Of several changes within this time the last is stored: no request waits for it."""


class Held(Generic[Value]):
    """One record: as it is now, the version that it was loaded or stored with, and the steps taken since then."""

    __slots__ = ("at", "steps", "value", "version")

    def __init__(self, value: Value, version: int = 0) -> None:
        self.value, self.version, self.at = value, version, 0.0
        self.steps: list[Step[Value]] = []


class Records(Generic[Key, Value]):
    """Records by key, of which the longest unused is let go first. `new` is what one begins as, `read` answers None for junk.

    What is at hand is taken for the newest: its process alone writes to the store. One that shares a store with others must
    load a record for every request.
    """

    def __init__(
        self,
        store: SessionStore,
        new: Value,
        max_held: int,
        name_of: Callable[[Key], str],
        read: Callable[[bytes], Value | None],
        write: Callable[[Value], bytes],
        soon_seconds: float = _SOON_SECONDS,
    ) -> None:
        self._store, self._new, self._max_held, self._soon_seconds = store, new, max_held, soon_seconds
        self._name_of, self._read, self._write = name_of, read, write
        self.held: OrderedDict[Key, Held[Value]] = OrderedDict()
        self._due: dict[Held[Value], Key] = {}
        self._timer: asyncio.TimerHandle | None = None
        """Set until all that is due is stored."""
        self._task: asyncio.Task[None] | None = None

    async def load(self, key: Key) -> Value | None:
        """The record that is at hand, or else in the store; None where there is none."""
        held = self.held.get(key)
        if held is None:
            stored = await self._store.load(self._name_of(key))
            held = self.held.get(key)  # another request may have changed it meanwhile, which is newer than what was loaded
            if held is None:
                value = None if stored.state is None else self._read(stored.state)
                if value is None:
                    return None
                held = self._hold(key, Held(value, stored.version))
        return held.value

    def update(self, key: Key, step: Step[Value], start: Value, replaces: Value | None = None) -> None:
        """Take a step on the record as it is now. One not at hand, or one that this one replaces, is at `start`."""
        held = self.held.get(key)
        if held is None:
            held = self._hold(key, Held(start))
        elif replaces is not None and held.value is replaces:
            held.value = start
            held.steps.append(lambda _: start)
        before = held.value
        after = step(before)
        if after is not before:
            held.value = after
            held.steps.append(step)

    def store(self, key: Key, at: float) -> None:
        """Store what was changed, soon. The time says when a record may be forgotten."""
        held = self.held.get(key)
        if held is not None and held.steps:
            held.at = at
            self.held.move_to_end(key)
            self._due[held] = key
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self._soon_seconds, self._begin_storing)

    async def close(self) -> None:
        """Store what is left."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await asyncio.wait({self._task})
        await self._store_due()

    def _begin_storing(self) -> None:
        self._task = spawn_started(self._store_due(), name="store records")

    async def _store_due(self) -> None:
        while self._due:
            held, key = next(iter(self._due.items()))
            await self._store_steps(self._name_of(key), held)
            del self._due[held]
        self._timer = None

    async def _store_steps(self, name: str, held: Held[Value]) -> None:
        while held.steps:
            taken = len(held.steps)
            if await self._store.swap(name, held.version, held.at, self._write(held.value)):
                held.version += 1
                del held.steps[:taken]
            else:
                stored = await self._store.load(name)
                value = None if stored.state is None else self._read(stored.state)
                held.value, held.version = self._new if value is None else value, stored.version
                for step in held.steps:
                    held.value = step(held.value)

    def _hold(self, key: Key, held: Held[Value]) -> Held[Value]:
        self.held[key] = held
        if len(self.held) > self._max_held:
            self.held.popitem(last=False)
        return held
