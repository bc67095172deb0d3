"""Limits that several routers share, without a server: what no router has is a number. A test says how answers come."""

import asyncio
from collections.abc import Callable

from router.contract.allowance import Use


class PoolPart:
    """The part of a limit that one router has, taken from a pool."""

    slice, opens_in_seconds, held_elsewhere = 1, None, 0

    def __init__(
        self, pool: "Pool", name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]
    ) -> None:
        self.pool, self.name, self.limit, self.use, self.wake = pool, name, limit, use, wake
        self.allowed = self.spent = self.recalled = 0
        self.asking: asyncio.Future[None] | None = None
        self.is_closed, self._refused_with = False, -1

    @property
    def is_blind(self) -> bool:
        return self.pool.is_blind

    @property
    def left(self) -> int:
        return self.pool.left.setdefault(self.name, self.limit)

    @property
    def reachable(self) -> int:
        return self.allowed + (0 if self.is_blind else self.left)

    @property
    def asks_in_seconds(self) -> float | None:
        return None if self.asking is not None or self.is_blind else 0.25

    def ask(self, least: int, more: int = 0) -> None:
        self.pool.asked.append((self.name, least, more))
        if self.asking is None and not self.is_blind and self.left != self._refused_with:
            self.asking = asyncio.get_running_loop().create_future()
            self.pool.receive(lambda: self._answer(least, more))

    async def answered(self) -> bool:
        if self.asking is None:
            return False
        await asyncio.wait((self.asking,))
        return True

    def _answer(self, least: int, more: int) -> None:
        grant = min(least + more, self.left) if self.left >= least else 0
        self._refused_with = -1 if grant else self.left
        self.pool.left[self.name] -= grant
        self.allowed += grant
        if self.asking is not None:
            self.asking.set_result(None)
        self.asking = None
        self.wake()

    def close(self) -> None:
        self.is_closed = True

    async def confirm(self) -> None:
        self.pool.confirmed.append(self.name)

    def spend(self, units: int) -> None:
        self.allowed -= units
        self.spent += units

    def recall(self, units: int) -> None:
        self.recalled = units


class Pool:
    """A store whose answers come with the next turn of the loop, or late, the last question first, or with a second wake.

    `left` is what there is of each limit; all of it where a test does not say.
    """

    def __init__(
        self, left: int | None = None, *, late_seconds: float = 0.0, reverses: bool = False, wakes_twice: bool = False
    ):
        self._all, self._late_seconds, self._reverses, self._wakes_twice = left, late_seconds, reverses, wakes_twice
        self.left: dict[tuple[str, ...], int] = {}
        self.is_blind = False
        self.asked: list[tuple[tuple[str, ...], int, int]] = []
        self.confirmed: list[tuple[str, ...]] = []
        self.parts: dict[tuple[str, ...], PoolPart] = {}
        self._questions: list[Callable[[], None]] = []

    def part(self, name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]) -> PoolPart:
        """Each router that asks has a part of its own; `parts` has the last."""
        if self._all is not None:
            self.left.setdefault(name, self._all)
        self.parts[name] = part = PoolPart(self, name, limit, use, wake)
        return part

    budget = part

    def receive(self, answer: Callable[[], None]) -> None:
        if not self._questions:
            asyncio.get_running_loop().call_later(self._late_seconds, self._answer_all)
        self._questions.append(answer)

    def _answer_all(self) -> None:
        questions, self._questions = self._questions[:: -1 if self._reverses else 1], []
        for answer in questions:
            answer()
        for part in self.parts.values() if self._wakes_twice else ():
            part.wake()


class Channel:
    def __init__(self):
        self.members = []

    def join(self, name):
        self.members.append(member := Member(self, name))
        return member


class Member:
    """One router's messages. The test triggers its ticks."""

    def __init__(self, channel, name):
        self._channel, self.replica, self.is_up = channel, name, True
        self._takers, self._beats = {}, []
        self.told = []

    @property
    def routers(self):
        return len(self._channel.members)

    def publish(self, fact):
        self.told.append(fact)
        for other in self._channel.members:
            if other is not self and self.is_up and other.is_up:
                for take in other._takers.get(type(fact), ()):
                    take(f"{self.replica}/1", fact)

    def subscribe(self, kind, take):
        self._takers.setdefault(kind, []).append(take)

    def on_tick(self, call):
        self._beats.append(call)

    def beat(self):
        for call in self._beats:
            call()
