"""Limits that routers share, without a server: the unallotted rest is a number, and answers come on the loop's next turn."""

import asyncio
from collections.abc import Callable

from router.contract.allowance import Use


class PoolPart:
    def __init__(
        self, pool: "Pool", name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]
    ) -> None:
        self._pool, self.name, self.limit, self.use, self._wake = pool, name, limit, use, wake
        self.allowed = self.spent = self.recalled = self.held_elsewhere = 0
        self.slice, self.opens_in_seconds, self._asking = 1, None, None
        self.is_closed, self._refused_with = False, 0

    @property
    def is_blind(self) -> bool:
        return self._pool.is_blind

    @property
    def reachable(self) -> int:
        return self.allowed + (0 if self.is_blind else self._pool.left)

    @property
    def asks_in_seconds(self) -> float | None:
        return None if self._asking is not None or self.is_blind else 0.25

    def ask(self, least: int, more: int = 0) -> None:
        self._pool.asked.append((self.name, least, more))
        if self._asking is None and not self.is_blind and self._pool.left != self._refused_with:
            self._asking = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(self._answer, least, more)

    async def answered(self) -> bool:
        if self._asking is None:
            return False
        await asyncio.wait((self._asking,))
        return True

    def _answer(self, least: int, more: int) -> None:
        grant = min(least + more, self._pool.left) if self._pool.left >= least else 0
        self._refused_with = 0 if grant else self._pool.left
        self._pool.left -= grant
        self.allowed += grant
        self._asking.set_result(None)
        self._asking = None
        self._wake()

    def close(self) -> None:
        self.is_closed = True

    def spend(self, units: int) -> None:
        self.allowed -= units
        self.spent += units

    def recall(self, units: int) -> None:
        self.recalled = units


class Pool:
    def __init__(self, left: int) -> None:
        self.left, self.is_blind = left, False
        self.asked: list[tuple[tuple[str, ...], int, int]] = []
        self.parts: dict[tuple[str, ...], PoolPart] = {}

    def part(self, name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]) -> PoolPart:
        return self.parts.setdefault(name, PoolPart(self, name, limit, use, wake))

    budget = part


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
