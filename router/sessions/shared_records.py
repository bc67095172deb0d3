"""Records in a store that other routers change too. Routers that share nothing do not load this.

Each request asks the store for its records. What is at hand serves only while the store cannot be asked, and to take steps on
that are not stored yet. A record that could not be stored is joined with what the store has as soon as it can be asked again.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Generic

from msgspec import Struct

from router.contract.stores import SessionStore, StoreUnusable, Versioned
from router.loop.tasks import spawn
from router.sessions.records import Held, Key, Records, Step, Value

_VERSION_BITS = 48


class _Round(Struct, Generic[Value], eq=False):
    """One record on its way to the store: the version that it replaces, and how many steps it has that are not stored."""

    held: Held[Value]
    name: str
    version: int
    taken: int
    written: "asyncio.Future[None]"
    next: "asyncio.Future[None] | None" = None
    """For what was changed meanwhile, and is sent as soon as this is confirmed."""


class SharedRecords(Records[Key, Value]):
    """Records by key. `join` makes one of two that went apart while the store could not be asked: ours, and the stored one."""

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
        super().__init__(store, new, max_held, name_of, read, write)
        self._join = join
        self._rounds: dict[Held[Value], _Round[Value]] = {}

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Kept, since to ask for it costs a system call."""
        return asyncio.get_running_loop()

    async def load(self, key: Key) -> Value | None:
        held = (await self.load_all((key,))).get(key)
        return None if held is None else held.value

    async def load_all(self, keys: Sequence[Key]) -> Mapping[Key, Held[Value]]:
        """The records that there are, as the store has them now, with what is not stored yet. It is asked once for all."""
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
                there[key] = held  # what the store has lost is still known here, and is stored again
        return there

    def _refresh(self, key: Key, asked_at: int | None, stored: Versioned) -> Held[Value]:
        """Bring what is at hand up to what is stored."""
        held = self.held.get(key)
        if held is None:
            held = self._hold(key, Held(self._new))
            self._take_again(held, stored)
        elif stored.version < held.version and held.version != asked_at:
            pass  # stored by another request of this router, after the store had read this
        elif stored.version != held.version:
            self._take_again(held, stored)
        return held

    def store(self, key: Key, at: float) -> "asyncio.Future[None] | None":
        """Store what was changed. The future ends when the store has confirmed it, and raises if that cannot be."""
        held = self.held.get(key)
        if held is None or not held.steps:
            return None
        self.held.move_to_end(key)
        held.at = at
        under_way = self._rounds.get(held)
        if under_way is None:
            if not held.version:
                # Not 1: a record that begins again, after a store lost all, must not look like the one that others remember.
                held.version = secrets.randbits(_VERSION_BITS)
            written = self._loop.create_future()
            self._send(_Round(held, self._name_of(key), 0, 0, written))
            return written
        if len(held.steps) == under_way.taken:
            return under_way.written
        if under_way.next is None:
            under_way.next = self._loop.create_future()
        return under_way.next

    async def close(self) -> None:
        """Wait for what is being stored."""
        while self._rounds:
            await asyncio.wait([each.written for each in self._rounds.values()])

    def _send(self, round_: _Round[Value]) -> None:
        held = round_.held
        self._rounds[held] = round_
        round_.version, round_.taken = held.version, len(held.steps)
        try:
            answer: Any = self._swap(round_.name, held.version, held.at, self._write(held.value))
        except StoreUnusable as error:
            self._give_up(round_, error)
            return
        answer.add_done_callback(partial(self._take_answer, round_))

    def _take_answer(self, round_: _Round[Value], answer: "asyncio.Future[bool]") -> None:
        error = StoreUnusable("the write was cancelled") if answer.cancelled() else answer.exception()
        if error is not None:
            self._give_up(round_, error)
        elif answer.result():
            self._conclude(round_)
        else:
            spawn(self._send_again(round_), name="store a record again")

    def _conclude(self, round_: _Round[Value]) -> None:
        """The store has it: send what was changed meanwhile, if that is to be stored too."""
        held = round_.held
        if held.version == round_.version:
            held.version += 1
        del held.steps[: round_.taken], self._rounds[held]
        round_.written.set_result(None)
        if round_.next is not None:
            self._send(_Round(held, round_.name, 0, 0, round_.next))

    async def _send_again(self, round_: _Round[Value]) -> None:
        """Another router stored a newer version: take the steps again on that one, and try once more."""
        try:
            stored = await self._store.load(round_.name)
        except BaseException as error:
            self._give_up(round_, error)
            if not isinstance(error, StoreUnusable):
                raise
            return
        if stored.state is not None:
            self._take_again(round_.held, stored)
        self._send(round_)

    def _give_up(self, round_: _Round[Value], error: BaseException) -> None:
        """Keep the record as this router knows it. It is joined with what is stored when somebody next asks for it."""
        held = round_.held
        join: Step[Value] = partial(self._join, held.value)
        held.steps[:] = [join]
        del self._rounds[held]
        for written in (round_.written, round_.next):
            if written is not None:
                written.set_exception(StoreUnusable(str(error)))
                written.exception()  # seen: nobody need look at it
