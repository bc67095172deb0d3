"""The queue for one target with a quota: a request that finds no room waits here for its turn.

Callers take turns, and the requests of each are served in order of arrival. Background work goes last.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from msgspec import Struct

from router.contract.allowance import Allowance
from router.contract.caller import Caller, SessionKey
from router.contract.errors import UpstreamRefused
from router.contract.facts import AttemptEnded, Fact
from router.contract.request import JsonObject
from router.contract.share import Turns
from router.contract.target import Quota
from router.limits.quota import WINDOW_SECONDS, Grant, Meter
from router.limits.whole import ALONE
from router.telemetry import events

_LEAST_SECONDS = 0.001
_BLOCKED_SECONDS = 1.0
"""How long a provider is left alone that refuses for its rate limit, and names no time."""
_STALE_SECONDS_EACH, _MAX_STALE_SECONDS = 0.0005, 0.5
"""How old the expected waits may be: they are computed for all at once, which takes longer the more requests wait."""
_TOLD_SECONDS = 60.0
"""Not more often than this is it logged that a queue has formed."""
_TOO_MANY = 429
_SIDE_WAIT_SECONDS = 0.3
"""How long a side request leaves the last slot free: clients send it at the same moment as its session's own turn."""


class Expected(Struct, frozen=True):
    """A wait as it looks now. `because` follows the target's name."""

    seconds: float
    because: str = ""
    position: int = 1
    length: int = 1


class Ask(Struct, eq=False):
    """What one request asks for."""

    who: SessionKey
    tokens: int
    is_side_request: bool = False
    is_background: bool = False
    """Whether nobody waits for it: it goes after all others."""


_A = TypeVar("_A", bound=Ask)


class Waiter(Ask, eq=False, kw_only=True):
    """A request that asks for a permit, and may have to wait. Awaited, it gives the permit."""

    let_in: "asyncio.Future[Permit]"
    came_at: float
    expected: Expected = Expected(0.0)
    """The wait as it was last computed."""

    def __await__(self) -> "Generator[Any, None, Permit]":
        return self.let_in.__await__()

    @property
    def permit(self) -> "Permit | None":
        return self.let_in.result() if self.let_in.done() and not self.let_in.cancelled() else None


class Permit(Grant):
    """The right to make one call."""

    __slots__ = ("_queue",)

    def __init__(self, queue: "TargetQueue", at: float, tokens: int) -> None:
        super().__init__(at, tokens)
        self._queue = queue

    def _settle(self, facts: Sequence[Fact], now: float) -> None:
        self._queue.end(self, facts, now)

    def _release(self, now: float) -> None:
        self._queue.take_back(self, now)


class TargetQueue:
    """One target's meter, and the requests that wait for it."""

    def __init__(
        self, name: str, quota: Quota, clock: Callable[[], float], allowance: Allowance = ALONE, key: str = ""
    ) -> None:
        """`key` names a caller's key, where each has a quota of its own."""
        self._name, self._clock, self._turns = name, clock, Turns()
        self._waiting: list[Waiter] = []
        self._timer: asyncio.TimerHandle | None = None
        self._told_at = self._looked_at = -math.inf
        shared_as = ("target", name, key) if key else ("target", name)
        self.meter = Meter(quota, WINDOW_SECONDS, allowance, shared_as, clock, self._wake)

    @property
    def length(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost with it: nobody waits, nothing is under way, and nothing was sent for a minute."""
        self.meter.expire(self._clock())
        return not (self._waiting or self.meter.requests or self.meter.in_flight)

    def picture(self, now: float) -> JsonObject:
        """What is used of the quota, and how many requests wait."""
        self.meter.expire(now)
        used: JsonObject = {name: {"used": used, "limit": limit} for name, (used, limit) in self.meter.uses.items()}
        return {**used, "waiting": len(self._waiting)}

    def left(self, now: float) -> dict[str, int]:
        self.meter.expire(now)
        return self.meter.left

    def expect(self, who: SessionKey, prompt_tokens: int, now: float) -> Expected:
        ask = Ask(who, self.meter.expect_tokens(prompt_tokens))
        return self._expect(ask, [*self._waiting, ask], now)

    def look(self, waiter: Waiter, now: float) -> Expected:
        """The expected wait of a request in the queue, which is computed for all of them together."""
        if now >= self._looked_at + min(len(self._waiting) * _STALE_SECONDS_EACH, _MAX_STALE_SECONDS):
            self._look_at_all(now)
        return waiter.expected

    def hold(
        self, who: SessionKey, prompt_tokens: int, *, is_side_request: bool = False, is_background: bool = False
    ) -> Waiter:
        """Ask for a permit. Where there is room, and nobody goes first, the waiter has it at once."""
        now, let_in = self._clock(), asyncio.get_running_loop().create_future()
        tokens = self.meter.expect_tokens(prompt_tokens)
        waiter = Waiter(who, tokens, is_side_request, is_background, let_in=let_in, came_at=now)
        self._waiting.append(waiter)
        self._let_in(now)
        if waiter.permit is None:
            waiter.expected = self._expect(waiter, self._waiting, now)
            self._tell_formed(now)
        return waiter

    def hold_now(self, who: SessionKey, prompt_tokens: int) -> Permit | None:
        """A permit if there is room now, for a request that would not wait."""
        if self.expect(who, prompt_tokens, self._clock()).seconds:
            return None
        waiter = self.hold(who, prompt_tokens)
        if waiter.permit is None:
            self.leave(waiter)
        return waiter.permit

    def leave(self, waiter: Waiter) -> None:
        """Stop waiting."""
        now = self._clock()
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        if waiter.permit is not None:  # it had its turn in the moment in which it gave up
            waiter.permit.release(now)
        waiter.let_in.cancel()
        self._set_timer(now, now)  # many may leave in one moment

    def follow(self, quota: Quota) -> None:
        """Take another config's word for what the provider allows."""
        if quota != self.meter.quota:
            self.meter.quota = quota
            self._wake()

    def end(self, permit: Permit, facts: Sequence[Fact], now: float) -> None:
        ended = next((fact for fact in reversed(facts) if isinstance(fact, AttemptEnded)), None)
        usage, error = (ended.usage, ended.error) if ended is not None else (None, None)
        if usage is not None and not usage.is_estimated:
            self.meter.end(permit, now, usage.input_tokens, usage.output_tokens)
        else:
            self.meter.end(permit, now)
        if isinstance(error, UpstreamRefused) and error.status == _TOO_MANY:
            self.meter.block(now + (error.retry_after_seconds or _BLOCKED_SECONDS))
        self._let_in(now)

    def take_back(self, permit: Permit, now: float) -> None:
        self.meter.take_back(permit)
        self._let_in(now)

    def _let_in(self, now: float) -> None:
        """Let in the first in line while there is room. One that leaves the last slot free holds up nobody else."""
        self.meter.expire(now)
        if self.meter.has_room(0, now):
            for waiter in self._line_up(self._waiting):
                if not self.meter.has_room(waiter.tokens, now):
                    break
                if waiter.is_background and not self._has_room_to_spare():
                    break  # all that come after it are background work too
                if waiter.is_side_request and now < waiter.came_at + _SIDE_WAIT_SECONDS and self._has_last_slot():
                    continue
                self._waiting.remove(waiter)
                self._turns.take(waiter.who.caller.name)
                self.meter.take(permit := Permit(self, now, waiter.tokens))
                waiter.let_in.set_result(permit)
        self._set_timer(now)

    def _has_last_slot(self) -> bool:
        """Whether at most one slot is free."""
        slots = self.meter.quota.in_flight
        return slots is not None and self.meter.in_flight >= slots - 1

    def _has_room_to_spare(self) -> bool:
        """Whether background work may begin: nobody else waits, and half of the slots stay free for new requests."""
        slots = self.meter.quota.in_flight
        is_alone = all(waiter.is_background for waiter in self._waiting)
        return is_alone and (slots is None or self.meter.in_flight < max(1, slots // 2))

    def _line_up(self, asks: Sequence[_A]) -> list[_A]:
        """The order in which they are served if nobody else comes: each caller's first request, then each one's second.

        The caller that was served least recently begins. A session's side requests come after its own turn.
        """
        turns = {ask.who for ask in asks if not ask.is_side_request}
        counts, line = Counter[tuple[Caller, bool]](), list[tuple[bool, int, int, _A]]()
        for ask in sorted(asks, key=lambda ask: ask.is_side_request and ask.who in turns):
            caller, is_background = ask.who.caller, ask.is_background
            line.append((is_background, counts[caller, is_background], self._turns.last(caller.name), ask))
            counts[caller, is_background] += 1
        return [ask for *_, ask in sorted(line, key=itemgetter(0, 1, 2))]

    def _set_timer(self, now: float, at: float | None = None) -> None:
        """Look again at this moment, or else when there may be room."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._waiting and self._timer.when() <= loop.time() + _LEAST_SECONDS:
                return
            self._timer.cancel()
            self._timer = None
        if self._waiting and (change := self._next_change(now) if at is None else at) is not None:
            self._timer = loop.call_later(max(change - now, _LEAST_SECONDS), self._ring)

    def _next_change(self, now: float) -> float | None:
        sides = (waiter.came_at + _SIDE_WAIT_SECONDS for waiter in self._waiting if waiter.is_side_request)
        changes = [at for at in sides if at > now]
        if (at := self.meter.next_change(now)) is not None:
            changes.append(at)
        return min(changes, default=None)

    def _wake(self) -> None:
        """There may be more room."""
        if self._waiting:
            self._let_in(self._clock())

    def _ring(self) -> None:
        self._timer = None
        self._let_in(self._clock())

    def _tell_formed(self, now: float) -> None:
        if len(self._waiting) == 1 and self._waiting[0].expected.seconds and now - self._told_at >= _TOLD_SECONDS:
            self._told_at = now
            events.queue_formed(target=self._name, seconds=round(self._waiting[0].expected.seconds, 1))

    def _expect(self, ask: Ask, everybody: Sequence[Ask], now: float) -> Expected:
        self.meter.expire(now)
        line = self._line_up(everybody)
        ahead = line[: line.index(ask)]
        return self._expect_behind(ask, len(ahead), sum(other.tokens for other in ahead), len(line), now)

    def _look_at_all(self, now: float) -> None:
        self.meter.expire(now)
        self._looked_at, tokens = now, 0
        line = self._line_up(self._waiting)
        for ahead, waiter in enumerate(line):
            waiter.expected = self._expect_behind(waiter, ahead, tokens, len(line), now)
            tokens += waiter.tokens

    def _expect_behind(self, ask: Ask, ahead: int, tokens_ahead: int, length: int, now: float) -> Expected:
        seconds, limit = self.meter.wait(ask.tokens, now, ahead, tokens_ahead)
        told = f"is at its {limit}" + (f" for another {math.ceil(seconds)} s" if seconds else "")
        return Expected(seconds, told, ahead + 1, length)
