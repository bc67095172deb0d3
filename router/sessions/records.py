"""Small records in memory, changed by pure steps and stored by version, so that no step is lost.

Steps are kept until stored. If the store has a newer version, that is loaded and they are applied again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from router.contract.stores import SessionStore, Versioned
from router.loop.tasks import spawn_started

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Step = Callable[[Value], Value]


class Held(Generic[Value]):
    """A record, its stored version, and the steps since."""

    __slots__ = ("at", "is_storing", "steps", "value", "version")

    def __init__(self, value: Value, version: int = 0) -> None:
        self.value, self.version, self.at, self.is_storing = value, version, 0.0, False
        self.steps: list[Step[Value]] = []


class Records(Generic[Key, Value]):
    """Records by key; the least recently used go first. `read` returns None for junk.

    Records in memory count as newest, since only this process writes to the store (see `shared_records`).
    """

    def __init__(
        self,
        store: SessionStore,
        new: Value,
        max_held: int,
        name_of: Callable[[Key], str],
        read: Callable[[bytes], Value | None],
        write: Callable[[Value], bytes],
    ) -> None:
        self._store, self._new, self._max_held = store, new, max_held
        self._name_of, self._read, self._write, self._swap = name_of, read, write, store.swap
        self.held: OrderedDict[Key, Held[Value]] = OrderedDict()
        self._storing: set[asyncio.Task[None]] = set()

    async def load(self, key: Key) -> Value | None:
        held = self.held.get(key)
        if held is None:
            stored = await self._store.load(self._name_of(key))
            held = self.held.get(key)  # a concurrent request's change is newer than what was loaded
            if held is None:
                value = None if stored.state is None else self._read(stored.state)
                if value is None:
                    return None
                held = self._hold(key, Held(value, stored.version))
        return held.value

    def update(self, key: Key, step: Step[Value], start: Value, replaces: Value | None = None) -> None:
        """Apply a step to the current record, or to `start` if that is missing or `replaces`."""
        held = self.held.get(key)
        if held is None or (before := held.value) is replaces:
            self._begin(key, step, start, held)
            return
        after = step(before)
        if after is not before:
            held.value = after
            held.steps.append(step)

    def store(self, key: Key, at: float) -> "asyncio.Future[None] | None":
        """Store changes in the background. `at` decides when a record may be forgotten."""
        held = self.held.get(key)
        if held is None or not held.steps:
            return None
        self.held.move_to_end(key)
        if held.is_storing:
            held.at = at
            return None
        name = self._name_of(key)
        is_stored = self._swap(name, held.version, at, self._write(held.value))
        if is_stored is True:
            held.version += 1
            held.steps.clear()
            return None
        held.at = at
        task = spawn_started(self._store_steps(name, held, is_stored), name="store a record")
        if task is not None:
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)
        return None

    async def close(self) -> None:
        """Store the rest, including what cancelled tasks left."""
        await self._wait()
        for key, held in list(self.held.items()):
            if held.at:
                self.store(key, held.at)
        await self._wait()

    async def _wait(self) -> None:
        if self._storing:
            await asyncio.wait(self._storing)

    async def _store_steps(self, name: str, held: Held[Value], is_stored: bool | Awaitable[bool]) -> None:
        """Repeat until no step is left. `is_stored` is the store's first reply."""
        held.is_storing, taken = True, len(held.steps)
        try:
            while taken:
                if is_stored if isinstance(is_stored, bool) else await is_stored:
                    held.version += 1
                    del held.steps[:taken]
                else:
                    self._take_again(held, await self._store.load(name))
                if taken := len(held.steps):
                    is_stored = self._swap(name, held.version, held.at, self._write(held.value))
        finally:
            held.is_storing = False

    def _take_again(self, held: Held[Value], stored: Versioned) -> None:
        value = None if stored.state is None else self._read(stored.state)
        held.value, held.version = self._new if value is None else value, stored.version
        for step in held.steps:
            held.value = step(held.value)

    def _begin(self, key: Key, step: Step[Value], start: Value, held: Held[Value] | None) -> None:
        after = step(start)
        if after is start:
            return
        if held is None:
            held = self._hold(key, Held(start))
        else:
            held.steps.append(lambda _: start)
        held.value = after
        held.steps.append(step)

    def _hold(self, key: Key, held: Held[Value]) -> Held[Value]:
        self.held[key] = held
        if len(self.held) > self._max_held:
            self.held.popitem(last=False)
        return held
