"""The meter of one quota: what was sent in the last minute and what is under way, of a target or of a caller.

Every call of the last minute is known by itself, so no more than the quota is sent in any minute, wherever the provider's own
minute begins. While there is room a burst passes at once. Calls are counted here alone, against this router's part of each
limit: all of it, or as much as an `Allowance` that routers share has given it.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple

from router.contract.allowance import Allowance, Left, Part, Use
from router.contract.target import Quota
from router.limits.limit import Reservation
from router.limits.whole import ALONE

WINDOW_SECONDS = 61.0
"""A minute, and a second more: a call may be longer on its way to the provider than one that is sent a minute later."""
_FIRST_GUESS_TOKENS, _FIRST_GUESS_SECONDS = 400.0, 5.0
_WEIGHT = 0.1
"""How much one answer changes what is expected of the next; of its time, the first ones change more."""
_MIN_LEFT_SECONDS = 0.01
_SLICES = 10
"""How many slices an equal part of a limit has."""
_AWAY_SECONDS = 2.0
"""When a store that is away may be back: it is probed twice a second."""
_AHEAD = 4
"""More is asked for when less than a slice divided by this is left: then nobody waits for the answer."""
_REQUESTS, _TOKENS, _IN_FLIGHT = KINDS = ("requests_per_minute", "tokens_per_minute", "in_flight")
_AGE_SHARE = 0.5
"""How much longer a call takes that is older than usual, as a part of its age: long answers are longer still."""


def seconds_left(age_seconds: float, usual_seconds: float) -> float:
    return max(usual_seconds - age_seconds, age_seconds * _AGE_SHARE, _MIN_LEFT_SECONDS)


def wait_for_slot(left: Sequence[float], waiting: int, count: int, usual_seconds: float) -> float:
    """How long a call waits for others.

    `left` is how long each call in a slot still takes, `waiting` how many others go first, and `count` the number of slots.
    """
    entering = min(max(0, count - len(left)), waiting)
    free_in = sorted([*left, *([usual_seconds] * entering)])
    if len(free_in) < count:
        return 0.0
    # Every full round gives each slot one more answer. With more calls than slots, those that end last are the surplus.
    rounds, index = divmod(waiting - entering + len(free_in) - count, count)
    return free_in[index] + rounds * usual_seconds


class Grant(Reservation):
    """One call that was let through. One that was released is still in the log, and counts for nothing."""

    __slots__ = ("at", "is_counted", "requests", "tokens")

    def __init__(self, at: float, tokens: int) -> None:
        super().__init__()
        self.at, self.tokens, self.requests = at, tokens, 1
        self.is_counted = True


class Wait(NamedTuple):
    """How long until a call finds room, and which limit it waits for."""

    seconds: float
    limit: str


class Meter:
    """Counts calls and tokens of the last minute, and the calls that are under way.

    More of a limit that routers share is asked for in the background, by the question whether there is room. `wake` is called
    when there may be more.
    """

    def __init__(
        self,
        quota: Quota,
        window_seconds: float = WINDOW_SECONDS,
        allowance: Allowance = ALONE,
        name: tuple[str, ...] = (),
        clock: Callable[[], float] = lambda: 0.0,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.window_seconds, self._allowance, self._name, self._clock, self._wake = window_seconds, allowance, name, clock, wake
        self.requests = self.tokens = self._ended = 0
        """Of the last minute. Tokens of calls under way are expected, those of the others are known."""
        self._log: deque[Grant] = deque()
        self._open: set[Grant] = set()
        self._blocked_until = -math.inf
        self._output_tokens, self._seconds = _FIRST_GUESS_TOKENS, _FIRST_GUESS_SECONDS
        self._parts: dict[str, Part] = {}
        self._quota = Quota()
        self.quota = quota

    @property
    def quota(self) -> Quota:
        return self._quota

    @quota.setter
    def quota(self, quota: Quota) -> None:
        if quota == self._quota:
            return
        self._quota = quota
        for kind in KINDS:
            limit, part = getattr(quota, kind), self._parts.get(kind)
            if limit is None:
                if part is not None:
                    self._parts.pop(kind).close()
            elif part is None:
                self._parts[kind] = self._allowance.part((*self._name, kind), limit, partial(self._use, kind), self._wake)
            else:
                part.limit = limit

    @property
    def in_flight(self) -> int:
        return len(self._open)

    @property
    def counts_minutes(self) -> bool:
        """Whether anything is limited but the number of calls at once."""
        return self.quota.requests_per_minute is not None or self.quota.tokens_per_minute is not None

    @property
    def is_blind(self) -> bool:
        """Whether more cannot be asked for, since the store that keeps the parts is away."""
        return any(part.is_blind for part in self._parts.values())

    @property
    def uses(self) -> dict[str, tuple[int, int | None]]:
        """How much is used, and the limit, by its name."""
        return {kind: (self._used(kind), getattr(self.quota, kind)) for kind in KINDS}

    @property
    def left(self) -> dict[str, int]:
        """How much is left of each limit, by its name."""
        return {name: max(0, limit - used) for name, (used, limit) in self.uses.items() if limit is not None}

    def report(self, now: float) -> tuple[Left, ...]:
        """What is left of each limit of a minute, as far as this router can reach it."""
        found = []
        for kind, unit in ((_REQUESTS, "requests"), (_TOKENS, "tokens")):
            if (part := self._parts.get(kind)) is not None:
                last_at = next((grant.at for grant in reversed(self._log) if getattr(grant, unit)), -math.inf)
                reset_seconds = max(0.0, last_at + self.window_seconds - now)
                found.append(Left(unit, part.limit, max(0, part.reachable - self._used(kind)), reset_seconds))
        return tuple(found)

    def expect_tokens(self, prompt_tokens: int) -> int:
        """What a call will take: its prompt, and an answer as long as they lately are."""
        return prompt_tokens + int(self._output_tokens)

    def expire(self, now: float) -> list[Grant]:
        """Forget what is older than a minute, and say what that was."""
        old, log = [], self._log
        while log and now >= log[0].at + self.window_seconds:
            grant = log.popleft()
            self.requests -= grant.requests
            self.tokens -= grant.tokens
            grant.is_counted = False
            old.append(grant)
        return old

    def has_room(self, tokens: int, now: float) -> bool:
        """Whether a call of this size may be sent now. One that no minute could hold is sent when the minute is empty.

        If this router's part of a limit has no room, more is asked for.
        """
        if now < self._blocked_until:
            return False
        has_room = True
        for kind, part, missing in self._lacking(tokens):
            part.ask(missing, 0 if kind == _IN_FLIGHT else part.slice)
            has_room = False
        return has_room

    def _lacking(self, tokens: int) -> list[tuple[str, Part, int]]:
        lacks = [(kind, part, self._needed(kind, tokens, part) - part.allowed) for kind, part in self._parts.items()]
        return [lack for lack in lacks if lack[2] > 0]

    async def reach_room(self, tokens: int) -> bool:
        """Whether there is room, once it is known whether others have some to give."""
        while not self.has_room(tokens, self._clock()):
            lacking = self._lacking(tokens)
            if not lacking or not all([await part.answered() for _, part, _ in lacking]):
                return self.has_room(tokens, self._clock())
        return True

    def free_part(self) -> float:
        """How much of the minute is left for this router, by the limit that has less: 1 is all of it."""
        parts = [(kind, part) for kind, part in self._parts.items() if kind != _IN_FLIGHT]
        return max(0.0, min([(part.reachable - self._used(kind)) / part.limit for kind, part in parts], default=1.0))

    def take(self, grant: Grant) -> None:
        """Count a call."""
        self._log.append(grant)
        self.requests += 1
        self.tokens += grant.tokens
        self._open.add(grant)
        for kind, part in self._parts.items():
            if kind != _IN_FLIGHT and part.allowed - self._used(kind) < part.slice // _AHEAD:
                part.ask(1, part.slice)

    def end(self, grant: Grant, now: float, prompt_tokens: int = 0, output_tokens: int | None = None) -> None:
        """A call is over. What it really took counts from now on, where that is known."""
        self._open.discard(grant)
        self._ended += 1
        self._seconds += (now - grant.at - self._seconds) * max(_WEIGHT, 1 / self._ended)
        if output_tokens is not None:
            self._output_tokens += (output_tokens - self._output_tokens) * _WEIGHT
            self.charge(grant, grant.requests, prompt_tokens + output_tokens)

    def take_back(self, grant: Grant) -> None:
        """It was never sent: nothing of it counts. The newest calls of the log of which nothing counts leave it."""
        self._open.discard(grant)
        self.charge(grant, 0, 0)
        log = self._log
        while log and not log[-1].requests:
            log.pop()

    def block(self, until: float) -> None:
        """The provider says that its minute is full: somebody else uses it, or used it before we counted."""
        self._blocked_until = max(self._blocked_until, until)

    def charge(self, grant: Grant, requests: int, tokens: int) -> None:
        if grant.is_counted:
            self.requests += requests - grant.requests
            self.tokens += tokens - grant.tokens
        grant.requests, grant.tokens = requests, tokens

    def close(self) -> None:
        """Give back what is not in use."""
        for part in self._parts.values():
            part.close()

    def next_change(self, now: float) -> float | None:
        """When there may be more room without any call ending; None where that cannot be."""
        times = [self._blocked_until] if self._blocked_until > now else []
        if self._log:
            times.append(self._log[0].at + self.window_seconds)
        times += [now + seconds for part in self._parts.values() if (seconds := part.asks_in_seconds)]
        return min(times, default=None)

    def wait(self, tokens: int, now: float, ahead: int = 0, tokens_ahead: int = 0) -> Wait:
        """How long until a call of this size finds room, after the calls that go ahead of it.

        Routers that use a limit at the same time are expected to have equal parts of it in the end.
        """
        waits = []
        for kind, part in self._parts.items():
            usual = min(part.limit, max(part.reachable, _SLICES * part.slice))
            if kind == _REQUESTS:
                seconds = self._wait_for_requests(ahead + 1, usual, now)
            elif kind == _TOKENS:
                seconds = self._wait_for_tokens(tokens_ahead + min(tokens, usual), usual, now)
            else:
                left = [seconds_left(now - grant.at, self._seconds) for grant in self._open]
                seconds = wait_for_slot(left, ahead, usual, self._seconds)
            if part.reachable < part.limit and self._needed(kind, tokens, part) > part.reachable:
                seconds = max(seconds, self._wait_for_others(kind, part, now))
            waits.append(Wait(seconds, _say(kind, part.limit)))
        waits.append(Wait(max(0.0, self._blocked_until - now), "rate limit"))
        return max(waits, key=lambda wait: wait.seconds)

    def _wait_for_requests(self, count: int, per_minute: int, now: float) -> float:
        missing = count - (per_minute - self.requests)
        if missing <= 0:
            return 0.0
        minutes, index = divmod(missing - 1, per_minute)
        counted = (grant.at for grant in self._log if grant.requests)
        opens_at = next(islice(counted, index, None), now) + self.window_seconds
        return opens_at - now + minutes * self.window_seconds

    def _wait_for_tokens(self, tokens: int, per_minute: int, now: float) -> float:
        missing, opens_at = tokens - (per_minute - self.tokens), now
        for grant in self._log:
            if missing <= 0:
                break
            opens_at = grant.at + self.window_seconds
            missing -= grant.tokens
        return opens_at - now + max(0, missing) // per_minute * self.window_seconds

    def _wait_for_others(self, kind: str, part: Part, now: float) -> float:
        """How long until any router has something to give away, as far as anybody knows."""
        if kind == _IN_FLIGHT:
            return self._seconds
        times = [self._log[0].at + self.window_seconds - now] if self._log else []
        if (opens_in := part.opens_in_seconds) is not None:
            times.append(opens_in)
        unknown = _AWAY_SECONDS if part.is_blind else self.window_seconds
        return max(min(times, default=unknown), part.asks_in_seconds or 0.0)

    def _needed(self, kind: str, tokens: int, part: Part) -> int:
        """What is used with one more call. One that no minute could hold needs a whole minute."""
        return self._used(kind) + (min(tokens, part.limit) if kind == _TOKENS else 1)

    def _used(self, kind: str) -> int:
        return self.requests if kind == _REQUESTS else self.tokens if kind == _TOKENS else self.in_flight

    def _use(self, kind: str) -> Use:
        """What this router uses of a limit. What is a minute old counts for nothing, also while it is in the log."""
        if kind == _IN_FLIGHT:
            return Use(self.in_flight)
        now = self._clock()
        old = list(takewhile(lambda grant: grant.at <= now - self.window_seconds, self._log))
        units = sum(grant.requests if kind == _REQUESTS else grant.tokens for grant in old)
        frees_in = self._log[len(old)].at + self.window_seconds - now if len(self._log) > len(old) else None
        return Use(self._used(kind) - units, frees_in)


def _say(kind: str, limit: int) -> str:
    if kind == _IN_FLIGHT:
        return f"quota of {limit:,} at once"
    noun = "request" if kind == _REQUESTS else "token"
    return f"quota of {limit:,} {noun}{'s' if limit != 1 else ''} a minute"
