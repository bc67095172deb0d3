"""The queue for one target that has a quota: whoever finds no room waits here, and is let in by a fair order."""

import asyncio
import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeVar

from msgspec import Struct

from router.contract.errors import UpstreamRefused
from router.contract.facts import AttemptEnded
from router.contract.request import JsonObject
from router.contract.target import Quota
from router.dispatch.fair import Miss, Shares, Who
from router.dispatch.quota import WINDOW_SECONDS, Grant, Meter
from router.telemetry import events

_LEAST_SECONDS, _NEARLY = 0.001, 1e-9
_BLOCKED_SECONDS = 1.0
"""How long a provider is left alone that refuses for its rate limit, and names no time."""
_TOLD_SECONDS = 60.0
"""Not more often than this is it logged that a queue has formed."""
_TOO_MANY = 429


class Expected(Struct, frozen=True):
    """A wait as it looks now: how long, why in words that follow the target's name, and who else waits."""

    seconds: float
    because: str = ""
    position: int = 1
    length: int = 1


class Ask:
    """What one request asks for: so many tokens, which are such a part of a minute. Numbers go by arrival."""

    __slots__ = ("amount", "due", "number", "tokens", "who")

    def __init__(self, who: Who, tokens: int, amount: float, number: int) -> None:
        self.who, self.tokens, self.amount, self.number = who, tokens, amount, number
        self.due = math.inf
        """When it was to have its turn, as it looked when it came."""


class Waiter(Ask):
    """One request in the queue."""

    __slots__ = ("let_in", "miss")

    def __init__(self, ask: Ask, let_in: "asyncio.Future[Permit]") -> None:
        super().__init__(ask.who, ask.tokens, ask.amount, ask.number)
        self.let_in = let_in
        self.miss: Miss | None = None
        """What is owed for the wait, once it is one."""

    @property
    def permit(self) -> "Permit | None":
        """The permit, once it has its turn."""
        return self.let_in.result() if self.let_in.done() and not self.let_in.cancelled() else None


_A = TypeVar("_A", bound=Ask)
_due = attrgetter("due")


class Permit:
    """The right to make one call. It is given back when the call is over, in whatever way."""

    __slots__ = ("_grant", "_queue", "amount", "who")

    def __init__(self, queue: "TargetQueue", grant: Grant, who: Who, amount: float) -> None:
        self._queue, self._grant, self.who, self.amount = queue, grant, who, amount

    def end(self, now: float, ended: AttemptEnded | None) -> None:
        """The call is over."""
        if self._grant.is_open:
            self._queue.end(self._grant, now, ended)

    def take_back(self, now: float) -> None:
        """There was no call."""
        if self._grant.is_open:
            self._queue.take_back(self._grant, now)


class TargetQueue:
    """One target's meter, the shares in it, and who waits."""

    def __init__(self, name: str, quota: Quota) -> None:
        self._name, self.meter, self._shares = name, Meter(quota), Shares(WINDOW_SECONDS)
        self._waiting: list[Waiter] = []
        self._permits: dict[Grant, Permit] = {}
        self._numbers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._clock: Callable[[], float] = lambda: 0.0
        self._told_at = -math.inf

    @property
    def length(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost with it."""
        return not self._waiting and not self._permits

    def picture(self, now: float) -> JsonObject:
        """What is used of the quota, how many wait, and how many missed it in the last minute: who waits, or went elsewhere."""
        self._expire(now)
        quota, meter = self.meter.quota, self.meter
        return {
            "requests_per_minute": {"used": meter.requests, "limit": quota.requests_per_minute},
            "tokens_per_minute": {"used": meter.tokens, "limit": quota.tokens_per_minute},
            "in_flight": {"used": meter.in_flight, "limit": quota.in_flight},
            "waiting": len(self._waiting),
            "missed": self._shares.misses,
        }

    def expect(self, who: Who, prompt_tokens: int, now: float) -> Expected:
        """How long a request would wait that came now."""
        ask = self._ask(who, prompt_tokens)
        return self._expect(ask, [*self._waiting, ask], now)

    def look(self, waiter: Waiter, now: float) -> Expected:
        """The same for one that waits."""
        return self._expect(waiter, self._waiting, now)

    def enter(self, who: Who, prompt_tokens: int, clock: Callable[[], float]) -> Waiter:
        """Ask for a permit. Where there is room, and nobody goes first, the waiter has it at once."""
        self._clock, now = clock, clock()
        waiter = Waiter(self._ask(who, prompt_tokens), asyncio.get_running_loop().create_future())
        self._numbers += 1
        self._waiting.append(waiter)
        self._let_in(now)
        if waiter.permit is None:
            waiter.miss = self._shares.miss(who, waiter.amount, now)
            waiter.due = now + self.look(waiter, now).seconds
            self._set_timer(now)
            self._tell_formed(now)
        return waiter

    def enter_at_once(self, who: Who, prompt_tokens: int, clock: Callable[[], float]) -> Permit | None:
        """A permit if there is room now, for what nobody would wait for."""
        if self.expect(who, prompt_tokens, clock()).seconds:
            return None
        waiter = self.enter(who, prompt_tokens, clock)
        if waiter.permit is None:
            self.leave(waiter, is_owed=False)
        return waiter.permit

    def leave(self, waiter: Waiter, *, is_owed: bool) -> None:
        """Stop waiting. Who went elsewhere is owed its share, who left is not."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        if waiter.permit is not None:  # it had its turn in the moment in which it gave up
            waiter.permit.take_back(self._clock())
        waiter.let_in.cancel()
        if waiter.miss is not None and not is_owed:
            self._shares.forgive(waiter.miss)
        self._let_in(self._clock())

    def miss(self, who: Who, prompt_tokens: int, now: float) -> None:
        """A request went elsewhere because of the quota."""
        self._shares.miss(who, self._ask(who, prompt_tokens).amount, now)

    def follow(self, quota: Quota) -> None:
        """Take another config's word for what the provider allows. Parts of a minute are then other parts."""
        if quota == self.meter.quota:
            return
        self.meter.quota, self._shares, now = quota, Shares(WINDOW_SECONDS), self._clock()
        for grant, permit in self._permits.items():
            permit.amount = self.meter.part_of(grant.tokens)
            self._shares.take(permit.who, permit.amount)
        for waiter in self._waiting:
            waiter.amount = self.meter.part_of(waiter.tokens)
            waiter.miss = self._shares.miss(waiter.who, waiter.amount, now)
        if self._waiting:
            self._let_in(now)

    def end(self, grant: Grant, now: float, ended: AttemptEnded | None) -> None:
        """A call is over."""
        usage, error = (ended.usage, ended.error) if ended is not None else (None, None)
        if usage is not None and not usage.is_estimated:
            self.meter.end(grant, now, usage.input_tokens, usage.output_tokens)
        else:
            self.meter.end(grant, now)
        if isinstance(error, UpstreamRefused) and error.status == _TOO_MANY:
            self.meter.block(now + (error.retry_after_seconds or _BLOCKED_SECONDS))
        if not grant.is_counted:
            self._forget(grant)
        self._let_in(now)

    def take_back(self, grant: Grant, now: float) -> None:
        """There was no call."""
        self.meter.take_back(grant)
        self._forget(grant)
        self._let_in(now)

    def _ask(self, who: Who, prompt_tokens: int) -> Ask:
        tokens = self.meter.expect_tokens(prompt_tokens)
        return Ask(who, tokens, self.meter.part_of(tokens), self._numbers)

    def _expire(self, now: float) -> None:
        for grant in self.meter.expire(now):
            if not grant.is_open:  # what is under way counts among the shares until it is over
                self._forget(grant)
        self._shares.expire(now)

    def _forget(self, grant: Grant) -> None:
        permit = self._permits.pop(grant, None)
        if permit is not None:
            self._shares.give_back(permit.who, permit.amount)

    def _let_in(self, now: float) -> None:
        """Let in whoever may go, in the order of least taken. One that is held back for others holds up nobody else."""
        self._expire(now)
        while (waiter := self._next(now)) is not None:
            self._waiting.remove(waiter)
            if waiter.miss is not None:
                self._shares.forgive(waiter.miss)
            grant = self.meter.take(waiter.tokens, now)
            permit = self._permits[grant] = Permit(self, grant, waiter.who, waiter.amount)
            self._shares.take(waiter.who, waiter.amount)
            waiter.let_in.set_result(permit)
        self._set_timer(now)

    def _next(self, now: float) -> Waiter | None:
        for waiter in self._line_up(self._waiting, now):
            if not self.meter.has_room(waiter.tokens, now):
                return None
            if self._is_late(waiter, now) or self._may_take(waiter.who, waiter.amount, self.meter.free_part()):
                return waiter
        return None

    def _is_late(self, waiter: Waiter, now: float) -> bool:
        """Whether it was to have its turn by now: then it may have one more than its share."""
        return now >= waiter.due and self._shares.taken(waiter.who)[1] <= self._shares.share_of(waiter.who) + _NEARLY

    def _line_up(self, asks: Sequence[_A], now: float) -> list[_A]:
        """Who waits longer than it was told is not overtaken any more; of the others, least taken first."""
        late = [ask for ask in asks if now >= ask.due]
        return sorted(late, key=_due) + self._shares.line_up(ask for ask in asks if now < ask.due)

    def _may_take(self, who: Who, amount: float, free: float) -> bool:
        return not self.meter.counts_minutes or self._shares.may_take(who, amount, free)

    def _set_timer(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        changes = [at for at in (self.meter.next_change(now), self._shares.next_change()) if at is not None]
        changes += [waiter.due for waiter in self._waiting if now < waiter.due < math.inf]
        if changes:
            seconds = max(min(changes) - now, _LEAST_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(seconds, lambda: self._let_in(self._clock()))

    def _tell_formed(self, now: float) -> None:
        if len(self._waiting) == 1 and now - self._told_at >= _TOLD_SECONDS:
            self._told_at = now
            events.queue_formed(target=self._name, seconds=round(self.look(self._waiting[0], now).seconds, 1))

    def _expect(self, ask: Ask, everybody: Sequence[Ask], now: float) -> Expected:
        self._expire(now)
        line = self._line_up(everybody, now)
        ahead = line[: line.index(ask)]
        wait = self.meter.wait(ask.tokens, now, len(ahead), sum(other.tokens for other in ahead))
        seconds, because = wait.seconds, f"is at its {wait.limit}"
        own = ask.amount + math.fsum(other.amount for other in ahead if other.who == ask.who)
        if not self._may_take(ask.who, own, max(self.meter.free_part(), own)):
            share = self._wait_for_share(ask.who, own, now)
            if share > seconds:
                seconds, because = share, f"keeps the rest of its {wait.limit} for others"
        if ask.due < math.inf:  # from then on only those go first who are due earlier
            earlier = [other for other in everybody if other.due < ask.due]
            in_turn = self.meter.wait(ask.tokens, now, len(earlier), sum(other.tokens for other in earlier))
            seconds = min(seconds, max(ask.due - now, in_turn.seconds))
        if seconds:
            because = f"{because} for another {math.ceil(seconds)} s"
        return Expected(seconds, because, len(ahead) + 1, len(line))

    def _wait_for_share(self, who: Who, amount: float, now: float) -> float:
        """Until enough of what a session has taken is a minute old."""
        excess = self._shares.taken(who)[1] + amount - self._shares.share_of(who)
        for grant, permit in self._permits.items():
            if permit.who == who:
                excess -= permit.amount
                if excess <= _NEARLY:
                    return max(_LEAST_SECONDS, grant.at + WINDOW_SECONDS - now)
        return WINDOW_SECONDS
