"""Parts of shared limits in a Valkey server.

A part is lowered here before the server is updated, and raised after the server confirms, so this router never uses more than
the server reserves for it, even if a reply is lost. After each connection, and when the server no longer knows this router, all
parts are stated again: a server that lost its records grants nothing before it has heard all routers.
"""

import asyncio
import math
import os
import secrets
from collections.abc import Callable
from functools import cache
from typing import Any

from router.contract.allowance import Use
from router.contract.shared import OnStoreOutage
from router.contract.stores import StoreUnusable
from router.loop.supervisor import supervise
from router.loop.tasks import spawn
from router.stores.valkey.allowance_scripts import BEAT_SECONDS, LEAVE_SECONDS, OWN, PRESENT
from router.stores.valkey.link import Link, ignore
from router.stores.valkey.wire import Refused

_POLL_SECONDS = 0.25
"""Pause after a refused request for more."""
_IDLE_SECONDS, _BALANCE_BEATS, _STATE_SECONDS = 2.0, 10, 3_600.0
"""When a large unused part is returned, how often parts are balanced, and how often each is stated."""
_REFUSED_SECONDS = 1.0
"""Pause after an error reply: out of memory, or another program's value."""
_SLICES = 10
_AT_ONCE = 100
"""Parts stated before waiting for replies, so that all are answered in time."""
_MAX_WAIT_SECONDS = 2.0


class ValkeyPart:
    def __init__(
        self, owner: "ValkeyAllowance", name: str, limit: int, use: Callable[[], Use], wake: Callable[[], None], ledger: str
    ) -> None:
        self._owner, self.name, self._limit, self._use, self.wake, self._ledger = owner, name, limit, use, wake, ledger
        self.held = 0
        self._yielding = self._left = 0
        """Amount to pass to others once free, and amount no router holds."""
        self._least = self._want = 0
        self._is_missing = False
        """Whether the last request was refused."""
        self._asking: asyncio.Future[Any] | None = None
        self._asked_at = self._stated_at = self._quiet_until = self._refused_until = -math.inf
        self._is_closed, self._opens_at = False, math.inf
        self.held_elsewhere = 0
        self._own_spent = self._base = self._others_spent = 0
        self._sum: int | None = None
        """Spending per the ledger, until the server has it."""
        self._elsewhere: list[bytes | int] = []
        """Other ledgers, each followed by its spending, as last reported."""

    @property
    def limit(self) -> int:
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        if limit != self._limit:
            self._limit = limit
            self._owner.unstated.add(self)
            self.restate()

    @property
    def is_blind(self) -> bool:
        return self._owner.is_blind or self._owner.now() < self._refused_until

    @property
    def allowed(self) -> int:
        if not self.is_blind:
            return min(self.held - self._yielding, self.limit)
        kinds = {OnStoreOutage.SHARE: self.held, OnStoreOutage.STOP: 0, OnStoreOutage.OPEN: self.limit - self.spent}
        return kinds[self._owner.on_store_outage]

    @property
    def reachable(self) -> int:
        if self.is_blind:
            return self.allowed
        is_unknown = self._owner.now() >= self._quiet_until and not self._left
        return min(self.limit, self.allowed + (1 if is_unknown else self._left))

    @property
    def slice(self) -> int:
        return max(1, self.limit // (_SLICES * self._owner.replicas))

    @property
    def opens_in_seconds(self) -> float | None:
        return max(0.0, self._opens_at - self._owner.now()) if self._opens_at < math.inf else None

    @property
    def asks_in_seconds(self) -> float | None:
        if self._asking is not None or self._owner.is_blind:
            return None
        return max(0.0, self._quiet_until - self._owner.now(), self._refused_until - self._owner.now())

    @property
    def spent(self) -> int:
        return self._others_spent + self._own_spent

    def ask(self, least: int, more: int = 0) -> None:
        if self.is_blind:
            self._owner.count_blind()
            return
        self._asked_at = now = self._owner.now()
        if self._asking is None and now >= self._quiet_until:
            self._least = max(1, least)
            self._want = self._least + more
            self._send(self.held - self._yielding, self._least, self._want)

    async def answered(self) -> bool:
        if self._owner.rejoining is not None:
            await asyncio.wait((self._owner.rejoining,))
            return not self.is_blind
        if self._asking is not None:
            await asyncio.wait((self._asking,))
            await asyncio.sleep(0)  # a reply may have arrived unread
            return True
        left = self._quiet_until - self._owner.now()
        if not self._is_closed or left > _MAX_WAIT_SECONDS or self.is_blind:
            return False
        await asyncio.sleep(max(0.0, left))
        return True

    def close(self) -> None:
        self._owner.drop(self)

    def spend(self, units: int) -> None:
        self._own_spent += units
        self.held -= units
        self._owner.unstated.add(self)
        if self._own_spent + self._others_spent > self._limit:  # others may have parts of what is gone
            self.restate()

    async def confirm(self) -> None:
        if self._asking is not None:  # sent before others may have gone over
            await asyncio.wait((self._asking,))
        self.restate()
        if self._asking is not None:
            await asyncio.wait((self._asking,))
            await asyncio.sleep(0)  # a reply may have arrived unread

    def recall(self, units: int) -> None:
        self._sum = units

    def state(self) -> "asyncio.Future[Any] | None":
        """State what this router holds and knows. A concurrent request for more is void."""
        self._send(self.held - self._yielding, 0, 0, *self._elsewhere)
        return self._asking

    def restate(self) -> None:
        """State the part once no request is pending; each beat retries."""
        if not self.is_blind and self._asking is None:
            self.state()

    def give_back(self) -> None:
        """Return what others want: the free amount, or, while this router waits for more, the excess over its due."""
        if self._asking is not None:
            return
        if self._is_missing and self._owner.now() - self._asked_at < 2 * BEAT_SECONDS:
            self._send(self.held - self._yielding, self._least, self._want)
        else:
            self._send(0, 0, 0)

    def balance(self, now: float) -> None:
        """Keep half of an equal part in reserve while in use and not needed elsewhere; otherwise return it."""
        if self._asking is not None:
            return
        used, spare, is_idle = self._use().units, self.limit // (2 * self._owner.replicas), now - self._asked_at > _IDLE_SECONDS
        free = self.held - used
        if is_idle and free > spare:
            self._send(used + spare, 0, 0)
        elif used and not self._yielding and free < spare // 2 and self._left >= spare:
            self._send(self.held, 0, spare - free)
        elif self._yielding or (self.held and now - self._stated_at > _STATE_SECONDS):
            self.restate()

    def _send(self, keep: int, least: int, want: int, *elsewhere: bytes | int) -> None:
        owner, use = self._owner, self._use()
        self.held, self._yielding = max(keep, use.units), 0
        frees = -1 if use.frees_in_seconds is None else math.ceil(use.frees_in_seconds * 1_000)
        owner.unstated.discard(self)
        base, is_sum = (self._base, 0) if self._sum is None else (self._sum, 1)
        words = (least, want, self.limit, frees, self._own_spent, base, is_sum)
        self._stated_at, told = owner.now(), (least, self._own_spent, self._sum)
        asking = owner.run(self, self._ledger, self.held, *words, *elsewhere)
        if asking is not None:
            self._asking = asking
            asking.add_done_callback(lambda answer: self._take_answer(answer, *told))

    def _take_answer(self, answer: "asyncio.Future[Any]", least: int, told_spent: int, told_sum: int | None) -> None:
        if is_last := self._asking is answer:
            self._asking = None
        if answer.cancelled() or answer.exception() is not None:
            if not answer.cancelled() and isinstance(answer.exception(), Refused):
                self._refused_until = self._owner.now() + _REFUSED_SECONDS
                self._owner.unstated.add(self)
            self.wake()
            return
        grant, *rest = answer.result()
        if grant < 0:  # the server lost its records
            self._owner.rejoin()
            return
        if not is_last:  # later statements did not count this grant
            self.wake()
            return
        self._left, self._yielding, frees_in, closed, self.held_elsewhere, spent, self._base, self._elsewhere = rest
        now = self._owner.now()
        self._others_spent = spent - told_spent
        self._sum = None if self._sum == told_sum else self._sum
        self.held += grant
        if closed < 0 and least and not grant:
            self._refused_until = now + _POLL_SECONDS
        frees_in = max(frees_in, closed)
        self._is_closed, self._opens_at = closed > 0 and least > grant, now + frees_in / 1_000 if frees_in >= 0 else math.inf
        self._is_missing = least > 0 and not grant
        self._quiet_until = now + (closed / 1_000 if self._is_closed else _POLL_SECONDS if self._is_missing else 0.0)
        self.wake()


class ValkeyAllowance:
    """All parts of this router, which uses limits from the first part on."""

    def __init__(self, link: Link, on_store_outage: OnStoreOutage, replica: str, ledger: Callable[[], str] = str) -> None:
        self._link, self.on_store_outage, self._ledger = link, on_store_outage, cache(ledger)
        self._me = f"{replica}:{os.getpid()}:{secrets.token_hex(4)}"
        self._parts: dict[str, ValkeyPart] = {}
        self._others: list[bytes] = []
        self._is_present = False
        self._beating: asyncio.Task[None] | None = None
        self.rejoining: asyncio.Task[None] | None = None
        self._beats = 0
        self.unstated: set[ValkeyPart] = set()
        """Parts with spending the server has not heard of."""
        link.register(OWN)
        link.register(PRESENT)
        link.on_up(self._come_up)

    @property
    def is_blind(self) -> bool:
        return not (self._is_present and self._link.is_up)

    @property
    def replicas(self) -> int:
        """Including this one."""
        return len(self._others) + 1

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def part(self, name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]) -> ValkeyPart:
        return self._add(ValkeyPart(self, ":".join(name), limit, use, wake, ""))

    def budget(self, name: tuple[str, ...], limit: int, use: Callable[[], Use], wake: Callable[[], None]) -> ValkeyPart:
        return self._add(ValkeyPart(self, ":".join(name), limit, use, wake, self._ledger()))

    def begin(self) -> None:
        """Join the routers that use limits."""
        if self._beating is None:
            self._beating = supervise(self._beat, name="share limits")
            self.rejoin()

    def run(self, part: ValkeyPart, ledger: str, *words: bytes | int) -> "asyncio.Future[Any] | None":
        """None while the server is away."""
        keys = [self._members, self._link.key("b" if ledger else "a", part.name), self._wanted]
        try:
            return self._link.run(OWN, keys, self._me, part.name, ledger, *words)
        except StoreUnusable:
            return None

    def count_blind(self) -> None:
        self._link.blind["limits"] += 1

    def drop(self, part: ValkeyPart) -> None:
        if self._parts.get(part.name) is part:
            del self._parts[part.name]
            part.give_back()

    def rejoin(self) -> None:
        if self.rejoining is None and self._link.is_up:
            self._is_present = False
            self.rejoining = spawn(self._rejoin(), name="state parts of limits")

    async def close(self) -> None:
        """Leave: unused amounts are returned now, the rest after a minute."""
        if self._beating is not None:
            self._beating.cancel()
        if self.is_blind:
            return
        for part in self._parts.values():
            part.give_back()
        try:
            await self._link.run(PRESENT, [self._members, self._wanted], self._me, "leave", int(LEAVE_SECONDS * 1_000))
        except StoreUnusable:
            return

    @property
    def _members(self) -> str:
        return self._link.key("a", "#routers")

    @property
    def _wanted(self) -> str:
        return self._link.key("a", "#wanted")

    def _add(self, part: ValkeyPart) -> ValkeyPart:
        self._parts[part.name] = part
        if self._link.is_up:
            self.begin()
        return part

    def _come_up(self) -> None:
        self._is_present = False
        if self._beating is not None:
            self.rejoin()
        elif self._parts:
            self.begin()

    async def _rejoin(self) -> None:
        try:
            while not self._is_present:  # once, unless the server loses its records meanwhile
                await self._state_parts()
        except StoreUnusable:
            return
        finally:
            self.rejoining = None
        for part in tuple(self._parts.values()):
            part.wake()

    async def _state_parts(self) -> None:
        keys = [self._members, self._wanted]
        self._link.run(PRESENT, keys, self._me, "begin", *self._others).add_done_callback(ignore)
        for number, part in enumerate(tuple(self._parts.values()), 1):
            asking = part.state()
            if asking is not None and number % _AT_ONCE == 0:
                await asyncio.wait((asking,))
        is_known, others, _ = await self._link.run(PRESENT, keys, self._me, "done")
        if is_known:
            self._is_present, self._others = True, others

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            if self.is_blind:
                self.rejoin()
                continue
            try:
                is_known, others, wanted = await self._link.run(PRESENT, [self._members, self._wanted], self._me, "beat")
            except StoreUnusable:
                continue
            if not is_known:
                self.rejoin()
                continue
            self._others = others
            self._give(wanted)

    def _give(self, wanted: list[bytes]) -> None:
        self._beats += 1
        for name in wanted:
            if (part := self._parts.get(name.decode("utf-8", "replace"))) is not None:
                part.give_back()
        for part in tuple(self.unstated):
            part.restate()
        if self._beats % _BALANCE_BEATS == 0:
            now = self.now()
            for part in tuple(self._parts.values()):
                part.balance(now)
