"""Versioned records: small cached values, changed by pure steps and stored by version, so that no step is lost.

A step applies to the cached value at once, and is kept until stored. Where the store has a newer version, that is loaded and
the steps are applied again. With a store shared by routers, each request loads its records: the cache serves only while the
store is away, and restores what the store has lost.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, partial
from typing import Generic, TypeVar

from msgspec import Struct

from router.contract.stores import SessionStore, StoreUnusable, Versioned
from router.loop.tasks import spawn

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Step = Callable[[Value], Value]
_Answer = bool | asyncio.Future[bool] | StoreUnusable
_VERSION_BITS = 48


class Held(Generic[Value]):
    """A record: its value, its loaded or stored version, and the steps since."""

    __slots__ = ("at", "steps", "value", "version", "write")

    def __init__(self, value: Value, version: int = 0) -> None:
        self.value, self.version, self.at = value, version, 0.0
        self.steps: list[Step[Value]] = []
        self.write: _Write[Value] | None = None


class _Write(Struct, Generic[Value], eq=False):
    """A write under way: the version it replaces, and how many steps it contains."""

    held: Held[Value]
    name: str
    done: "asyncio.Future[None]"
    version: int = 0
    taken: int = 0
    next: "asyncio.Future[None] | None" = None
    """The next write, with the steps taken meanwhile."""


class Records(Generic[Key, Value]):
    """Records by key, the least recently used dropped first. `new` is the initial value, `read` returns None for junk.

    `join` merges our value with a stored one that diverged while the store was away.
    """

    def __init__(
        self,
        store: SessionStore,
        new: Value,
        max_held: int,
        name_of: Callable[[Key], str],
        read: Callable[[bytes], Value | None],
        write: Callable[[Value], bytes],
        join: Callable[[Value, Value], Value],
    ) -> None:
        self._store, self._new, self._max_held, self._join = store, new, max_held, join
        self._name_of, self._read, self._write, self._swap = name_of, read, write, store.swap
        self.is_shared = store.is_shared
        self.held: OrderedDict[Key, Held[Value]] = OrderedDict()
        self._writes: set[_Write[Value]] = set()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # a system call each time

    async def load(self, key: Key) -> Value | None:
        """A cached record is the newest, unless routers share the store."""
        if self.is_shared:
            held = (await self.load_all((key,))).get(key)
        elif (held := self.held.get(key)) is None:
            stored = await self._store.load(self._name_of(key))
            held = self.held.get(key) if stored.state is None else self._refresh(key, None, stored)
        return None if held is None else held.value

    async def load_all(self, keys: Sequence[Key]) -> Mapping[Key, Held[Value]]:
        """In one query, plus unstored steps."""
        held_by = self.held.get
        before = [None if held is None else held.version for held in map(held_by, keys)]
        try:
            found = await self._store.load_all(list(map(self._name_of, keys)))
        except StoreUnusable:
            return {key: held for key in keys if (held := held_by(key)) is not None}
        there: dict[Key, Held[Value]] = {}
        for key, version, stored in zip(keys, before, found, strict=True):
            if stored.state is not None:
                there[key] = self._refresh(key, version, stored)
            elif (held := held_by(key)) is not None:
                there[key] = held  # lost by the store, restored by the next write
        return there

    def update(self, key: Key, step: Step[Value], start: Value, replaces: Value | None = None) -> None:
        """Apply a step. A record that is not cached, or equals `replaces`, begins at `start`."""
        held = self.held.get(key)
        if held is None or (before := held.value) is replaces:
            self._begin(key, step, start, held)
            return
        after = step(before)
        if after is not before:
            held.value = after
            held.steps.append(step)

    def store(self, key: Key, at: float) -> "asyncio.Future[None] | None":
        """Store changes. A record expires relative to `at`.

        The future completes when the store confirms, and raises `StoreUnusable` where the write failed. None: nothing to wait
        for, as with a store that only this process uses.
        """
        held = self.held.get(key)
        if held is None or not held.steps:
            return None
        self.held.move_to_end(key)
        if held.write is not None:
            return self._store_next(held.write, at)
        name = self._name_of(key)
        try:
            answer: _Answer = self._swap(name, held.version, at, self._write(held.value))
        except StoreUnusable as error:
            answer = error
        if answer is True:
            held.version += 1
            held.steps.clear()
            return None
        held.at = at
        return self._follow(_Write(held, name, self._loop.create_future()), answer)

    async def close(self) -> None:
        await self._wait()
        for key, held in list(self.held.items()):
            if held.at:
                self.store(key, held.at)
        await self._wait()

    async def _wait(self) -> None:
        while self._writes:
            await asyncio.wait([write.done for write in self._writes])

    def _store_next(self, write: _Write[Value], at: float) -> "asyncio.Future[None]":
        """Wait for the write under way, or the one after it."""
        write.held.at = at
        if len(write.held.steps) == write.taken:
            return write.done
        if write.next is None:
            write.next = self._loop.create_future()
        return write.next

    def _send(self, write: _Write[Value]) -> None:
        held = write.held
        try:
            answer: _Answer = self._swap(write.name, held.version, held.at, self._write(held.value))
        except StoreUnusable as error:
            answer = error
        self._follow(write, answer)

    def _follow(self, write: _Write[Value], answer: _Answer) -> "asyncio.Future[None]":
        held = write.held
        held.write, write.version, write.taken = write, held.version, len(held.steps)
        self._writes.add(write)
        if isinstance(answer, StoreUnusable):
            self._give_up(write, answer)
        elif isinstance(answer, bool):
            self._settle(write, is_stored=answer)
        else:
            answer.add_done_callback(partial(self._take_answer, write))
        return write.done

    def _take_answer(self, write: _Write[Value], answer: "asyncio.Future[bool]") -> None:
        error = StoreUnusable("the write was cancelled") if answer.cancelled() else answer.exception()
        if error is not None:
            self._give_up(write, error)
        else:
            self._settle(write, is_stored=answer.result())

    def _settle(self, write: _Write[Value], *, is_stored: bool) -> None:
        """Send the steps taken meanwhile, or retry a rejected write."""
        if not is_stored:
            spawn(self._send_again(write), name="store a record again", loop=self._loop)
            return
        held = write.held
        if held.version == write.version:
            held.version += 1
        del held.steps[: write.taken]
        self._finish(write)
        write.done.set_result(None)
        if write.next is not None:
            self._send(_Write(held, write.name, write.next))

    async def _send_again(self, write: _Write[Value]) -> None:
        """Apply the steps to another router's version, and retry."""
        try:
            stored = await self._store.load(write.name)
        except BaseException as error:
            self._give_up(write, error)
            if not isinstance(error, StoreUnusable):
                raise
            return
        if stored.state is not None or not self.is_shared:
            self._take_again(write.held, stored)
        self._send(write)

    def _give_up(self, write: _Write[Value], error: BaseException) -> None:
        """Keep our value, to be joined with the stored one at the next load or write."""
        held = write.held
        join: Step[Value] = partial(self._join, held.value)
        held.steps[:] = [join]
        self._finish(write)
        for done in (write.done, write.next):
            if done is not None:
                done.set_exception(StoreUnusable(str(error)))
                done.exception()  # mark as retrieved

    def _finish(self, write: _Write[Value]) -> None:
        write.held.write = None
        self._writes.discard(write)

    def _refresh(self, key: Key, asked_at: int | None, stored: Versioned) -> Held[Value]:
        """`asked_at` is the version cached when the store was asked."""
        held = self.held.get(key)
        if held is None:
            held = self._hold(key, Held(self._new))
            self._take_again(held, stored)
        elif stored.version < held.version and held.version != asked_at:
            pass  # stored by another request of this router after the read
        elif stored.version != held.version:
            self._take_again(held, stored)
        return held

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
            # Random, not 1: a record that restarts after a store lost all must differ from the one other routers remember.
            held = self._hold(key, Held(start, secrets.randbits(_VERSION_BITS) if self.is_shared else 0))
        else:
            held.steps.append(lambda _: start)
        held.value = after
        held.steps.append(step)

    def _hold(self, key: Key, held: Held[Value]) -> Held[Value]:
        self.held[key] = held
        if len(self.held) > self._max_held:
            self.held.popitem(last=False)
        return held
