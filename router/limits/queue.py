"""The queue for one target that has a quota: whoever finds no room waits here, and is let in by a fair order."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import Struct

from router.contract.allowance import Allowance
from router.contract.caller import SessionKey
from router.contract.errors import UpstreamRefused
from router.contract.facts import AttemptEnded, Fact
from router.contract.request import JsonObject
from router.contract.target import Quota
from router.limits.fair import Miss, Shares
from router.limits.quota import WINDOW_SECONDS, Grant, Meter
from router.limits.whole import ALONE
from router.telemetry import events

_LEAST_SECONDS, _NEARLY = 0.001, 1e-9
_BLOCKED_SECONDS = 1.0
"""How long a provider is left alone that refuses for its rate limit, and names no time."""
_MAX_AT_ONCE = 16
"""This many are let in before the event loop may do something else: who is next is worked out again for each."""
_FEW, _FEWS_SECONDS, _MAX_STALE_SECONDS = 20, 0.01, 0.5
"""How old a look at a long queue may be: so long for every few who wait in it, since a look at all of them takes longer."""
_TOLD_SECONDS = 60.0
"""Not more often than this is it logged that a queue has formed."""
_TOO_MANY = 429
SIDE_WAIT_SECONDS, _MAX_SIDE_WAIT_SECONDS = 0.3, 30.0
"""How long a side request leaves the last slot free for its session's own turn: since it came, and since the turn's last call
ended. Clients send both in one moment, and go on with a turn as soon as a tool has run."""

_due = attrgetter("due")


class Expected(Struct, frozen=True):
    """A wait as it looks now. `because` follows the target's name."""

    seconds: float
    because: str = ""
    position: int = 1
    length: int = 1


class Ask(Struct, eq=False):
    """What one request asks for: tokens, and which part of a minute's they are. Numbers go by arrival."""

    who: SessionKey
    tokens: int
    amount: float
    number: int
    is_side_request: bool = False
    is_background: bool = False
    """Whether nobody waits for it: it goes after all others."""
    due: float = math.inf
    """When it was to have its turn, as it looked when it came."""


_A = TypeVar("_A", bound=Ask)


class Waiter(Ask, eq=False, kw_only=True):
    """A request that asks for a permit, and may have to wait. Awaited, it gives the permit."""

    let_in: "asyncio.Future[Permit]"
    came_at: float
    miss: Miss | None = None
    """What is owed for the wait, once it is one."""
    expected: Expected = Expected(0.0)
    """What the wait looked like when somebody looked last."""

    def __await__(self) -> "Generator[Any, None, Permit]":
        return self.let_in.__await__()

    @property
    def permit(self) -> "Permit | None":
        return self.let_in.result() if self.let_in.done() and not self.let_in.cancelled() else None


class Permit(Grant):
    """The right to make one call."""

    __slots__ = ("_queue", "amount", "ended_at", "is_side_request", "who")

    def __init__(self, queue: "TargetQueue", at: float, ask: Ask) -> None:
        super().__init__(at, ask.tokens)
        self._queue, self.who, self.amount, self.is_side_request = queue, ask.who, ask.amount, ask.is_side_request
        self.ended_at: float | None = None

    def _settle(self, facts: Sequence[Fact], now: float) -> None:
        self.ended_at = now
        self._queue.end(self, facts, now)

    def _release(self, now: float) -> None:
        self._queue.take_back(self, now)


class TargetQueue:
    """One target's meter, the shares in it, and who waits."""

    def __init__(self, name: str, quota: Quota, allowance: Allowance = ALONE, key: str = "") -> None:
        """`key` names a caller's key, where each has a quota of its own."""
        self._name, self._shares = name, Shares(WINDOW_SECONDS)
        self._waiting: list[Waiter] = []
        self._permits: dict[Grant, Permit] = {}
        self._numbers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._clock: Callable[[], float] = lambda: 0.0
        self._told_at = self._looked_at = -math.inf
        shared_as = ("target", name, key) if key else ("target", name)
        self.meter = Meter(quota, WINDOW_SECONDS, allowance, shared_as, lambda: self._clock(), self._wake)  # noqa: PLW0108  it is set by who comes

    @property
    def length(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost with it: nobody waits, and nothing was sent for a minute."""
        self._expire(self._clock())
        return not self._waiting and not self._permits

    def picture(self, now: float) -> JsonObject:
        """What is used of the quota, how many wait, and how many missed it in the last minute: who waits, or went elsewhere."""
        self._expire(now)
        used: JsonObject = {name: {"used": used, "limit": limit} for name, (used, limit) in self.meter.uses.items()}
        return {**used, "waiting": len(self._waiting), "missed": self._shares.misses}

    def left(self, now: float) -> dict[str, int]:
        self._expire(now)
        return self.meter.left

    def expect(self, who: SessionKey, prompt_tokens: int, now: float) -> Expected:
        ask = self._ask(who, prompt_tokens)
        return self._expect(ask, [*self._waiting, ask], now)

    def look(self, waiter: Waiter, now: float) -> Expected:
        """The same for one that waits. All are looked at together, and in a long queue not for each that asks."""
        age = min(len(self._waiting) // _FEW * _FEWS_SECONDS, _MAX_STALE_SECONDS)
        if now >= self._looked_at + age:
            self._look_at_all(now)
        return waiter.expected

    def hold(
        self,
        who: SessionKey,
        prompt_tokens: int,
        clock: Callable[[], float],
        *,
        is_side_request: bool = False,
        is_background: bool = False,
    ) -> Waiter:
        """Ask for a permit. Where there is room, and nobody goes first, the waiter has it at once."""
        self._clock, now = clock, clock()
        ask, let_in = self._ask(who, prompt_tokens), asyncio.get_running_loop().create_future()
        wanted = (who, ask.tokens, ask.amount, ask.number, is_side_request, is_background)
        waiter = Waiter(*wanted, let_in=let_in, came_at=now)
        self._numbers += 1
        self._waiting.append(waiter)
        self._let_in(now)
        if waiter.permit is None and is_background:
            self._set_timer(now)  # nothing is owed for its wait, and no moment is named: it has what others leave
        elif waiter.permit is None:
            waiter.miss = self._shares.miss(who, waiter.amount, now)
            waiter.expected = self._expect(waiter, self._waiting, now)
            waiter.due = now + waiter.expected.seconds
            self._set_timer(now)
            self._tell_formed(now)
        return waiter

    def hold_now(self, who: SessionKey, prompt_tokens: int, clock: Callable[[], float]) -> Permit | None:
        """A permit if there is room now, for what nobody would wait for."""
        if self.expect(who, prompt_tokens, clock()).seconds:
            return None
        waiter = self.hold(who, prompt_tokens, clock)
        if waiter.permit is None:
            self.leave(waiter, is_owed=False)
        return waiter.permit

    def leave(self, waiter: Waiter, *, is_owed: bool) -> None:
        """Stop waiting. Who went elsewhere is owed its share, who left is not."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        if waiter.permit is not None:  # it had its turn in the moment in which it gave up
            waiter.permit.release(self._clock())
        waiter.let_in.cancel()
        if waiter.miss is not None and not is_owed:
            self._shares.forgive(waiter.miss)
        self._set_timer(self._clock(), is_soon=True)  # many may leave in one moment

    def miss(self, who: SessionKey, prompt_tokens: int, now: float) -> None:
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

    def end(self, permit: Permit, facts: Sequence[Fact], now: float) -> None:
        ended = next((fact for fact in reversed(facts) if isinstance(fact, AttemptEnded)), None)
        usage, error = (ended.usage, ended.error) if ended is not None else (None, None)
        if usage is not None and not usage.is_estimated:
            self.meter.end(permit, now, usage.input_tokens, usage.output_tokens)
        else:
            self.meter.end(permit, now)
        if isinstance(error, UpstreamRefused) and error.status == _TOO_MANY:
            self.meter.block(now + (error.retry_after_seconds or _BLOCKED_SECONDS))
        if not permit.is_counted:
            self._forget(permit)
        self._let_in(now)

    def take_back(self, permit: Permit, now: float) -> None:
        self.meter.take_back(permit)
        self._forget(permit)
        self._let_in(now)

    def _ask(self, who: SessionKey, prompt_tokens: int) -> Ask:
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
        for _ in range(_MAX_AT_ONCE):
            if (waiter := self._next(now)) is None:
                break
            self._waiting.remove(waiter)
            if waiter.miss is not None:
                self._shares.forgive(waiter.miss)
            self.meter.take(permit := Permit(self, now, waiter))
            self._permits[permit] = permit
            self._shares.take(waiter.who, waiter.amount)
            waiter.let_in.set_result(permit)
        else:
            self._set_timer(now, is_soon=True)
            return
        self._set_timer(now)

    def _next(self, now: float) -> Waiter | None:
        if not self.meter.has_room(0, now):
            return None
        for waiter in self._line_up(self._waiting, now):
            if not self.meter.has_room(waiter.tokens, now):
                return None
            if waiter.is_side_request and now < self._gives_way_until(waiter):
                continue
            if waiter.is_background and not self._has_room_to_spare():
                return None  # all that come after it are background work too
            if self._is_late(waiter, now) or self._may_take(waiter.who, waiter.amount, self.meter.free_part()):
                return waiter
        return None

    def _gives_way_until(self, waiter: Waiter) -> float:
        """How long a side request leaves the last slot to its session's own turn, which is there or may be about to come."""
        slots = self.meter.quota.in_flight
        if slots is None or self.meter.in_flight < slots - 1:
            return -math.inf
        until, latest = waiter.came_at + SIDE_WAIT_SECONDS, waiter.came_at + _MAX_SIDE_WAIT_SECONDS
        if any(other.who == waiter.who and not other.is_side_request for other in self._waiting):
            return latest
        for permit in self._permits.values():
            if permit.who == waiter.who and not permit.is_side_request:
                if permit.ended_at is None:
                    return -math.inf  # the turn has a slot
                until = max(until, permit.ended_at + SIDE_WAIT_SECONDS)
        return min(until, latest)

    def _has_room_to_spare(self) -> bool:
        """Whether background work may begin: nobody else waits, and half of the slots stay free for who comes."""
        slots = self.meter.quota.in_flight
        is_alone = all(waiter.is_background for waiter in self._waiting)
        return is_alone and (slots is None or self.meter.in_flight < max(1, slots // 2))

    def _is_late(self, waiter: Waiter, now: float) -> bool:
        """Whether it was to have its turn by now: then it may have one more than its share."""
        return now >= waiter.due and self._shares.taken(waiter.who)[1] <= self._shares.share_of(waiter.who) + _NEARLY

    def _line_up(self, asks: Sequence[_A], now: float) -> list[_A]:
        """Who waits longer than it was told is not overtaken any more; of the others, least taken first.

        A session's side requests come after its own turn in any case, and background work after everybody's.
        """
        late = [ask for ask in asks if now >= ask.due]
        line = sorted(late, key=_due) + self._shares.line_up(ask for ask in asks if now < ask.due)
        if any(ask.is_side_request for ask in asks):
            turns = {ask.who for ask in asks if not ask.is_side_request}
            line.sort(key=lambda ask: ask.is_side_request and ask.who in turns)
        if any(ask.is_background for ask in asks):
            line.sort(key=attrgetter("is_background"))
        return line

    def _may_take(self, who: SessionKey, amount: float, free: float) -> bool:
        return not self.meter.counts_minutes or self._shares.may_take(who, amount, free)

    def _set_timer(self, now: float, *, is_soon: bool = False) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._waiting and self._timer.when() <= loop.time() + _LEAST_SECONDS:
                return
            self._timer.cancel()
            self._timer = None
        if self._waiting and (change := now if is_soon else self._next_change(now)) is not None:
            self._timer = loop.call_later(max(change - now, _LEAST_SECONDS), self._ring)

    def _next_change(self, now: float) -> float | None:
        changes = [at for at in (self.meter.next_change(now), self._shares.next_change()) if at is not None]
        changes += [waiter.due for waiter in self._waiting if now < waiter.due < math.inf]
        changes += [at for waiter in self._waiting if waiter.is_side_request and (at := self._gives_way_until(waiter)) > now]
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
        self._expire(now)
        line = self._line_up(everybody, now)
        ahead = line[: line.index(ask)]
        own = ask.amount + math.fsum(other.amount for other in ahead if other.who == ask.who)
        seconds, because = self._wait_behind(ask, len(ahead), sum(other.tokens for other in ahead), own, now)
        return _expected(seconds, because, len(ahead) + 1, len(line))

    def _look_at_all(self, now: float) -> None:
        """The same for all that wait, in one go. Once they are due, only those go first who are due earlier."""
        self._expire(now)
        self._looked_at, in_turn = now, self._waits_in_turn(now)
        own: defaultdict[SessionKey, float] = defaultdict(float)
        line, tokens = self._line_up(self._waiting, now), 0
        for position, waiter in enumerate(line):
            own[waiter.who] += waiter.amount
            seconds, because = self._wait_behind(waiter, position, tokens, own[waiter.who], now)
            seconds = min(seconds, max(waiter.due - now, in_turn[waiter.number]))
            waiter.expected = _expected(seconds, because, position + 1, len(line))
            tokens += waiter.tokens

    def _waits_in_turn(self, now: float) -> dict[int, float]:
        """How long each would wait for those that are due earlier."""
        found, tokens = {}, 0
        for position, waiter in enumerate(sorted(self._waiting, key=_due)):
            found[waiter.number] = self.meter.wait(waiter.tokens, now, position, tokens).seconds
            tokens += waiter.tokens
        return found

    def _wait_behind(self, ask: Ask, ahead: int, tokens_ahead: int, own: float, now: float) -> tuple[float, str]:
        """How long behind that many others, and for what. `own` is what its session asks for up to here, and with it."""
        wait = self.meter.wait(ask.tokens, now, ahead, tokens_ahead)
        if not self._may_take(ask.who, own, max(self.meter.free_part(), own)):
            share = self._wait_for_share(ask.who, own, now)
            if share > wait.seconds:
                return share, f"keeps the rest of its {wait.limit} for others"
        return wait.seconds, f"is at its {wait.limit}"

    def _wait_for_share(self, who: SessionKey, amount: float, now: float) -> float:
        """Until enough of what a session has taken is a minute old."""
        excess = self._shares.taken(who)[1] + amount - self._shares.share_of(who)
        for grant, permit in self._permits.items():
            if permit.who == who:
                excess -= permit.amount
                if excess <= _NEARLY:
                    return max(_LEAST_SECONDS, grant.at + WINDOW_SECONDS - now)
        return WINDOW_SECONDS


def _expected(seconds: float, because: str, position: int, length: int) -> Expected:
    told = f"{because} for another {math.ceil(seconds)} s" if seconds else because
    return Expected(seconds, told, position, length)
