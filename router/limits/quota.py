"""The meter of one quota: what was sent in the last minute and what is under way. No clock, no loop: times are given.

Targets have quotas, and so may callers.

Every call of the last minute is known by itself, so no more than the quota is sent in any minute, wherever the provider's own
minute begins. While there is room a burst passes at once.
"""

import math
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from router.contract.target import Quota

WINDOW_SECONDS = 61.0
"""A minute, and a second more: a call may be longer on its way to the provider than one that is sent a minute later."""
_FIRST_GUESS_TOKENS, _FIRST_GUESS_SECONDS = 400.0, 5.0
_WEIGHT = 0.1
"""How much one answer changes what is expected of the next; of its time, the first ones change more."""
_MIN_LEFT_SECONDS = 0.01
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


class Grant:
    """One call that was let through. One that was taken back is still in the log, and counts for nothing."""

    __slots__ = ("at", "is_counted", "is_open", "requests", "tokens")

    def __init__(self, at: float, tokens: int) -> None:
        self.at, self.tokens, self.requests = at, tokens, 1
        self.is_open = self.is_counted = True


class Wait(NamedTuple):
    """How long until a call finds room, and which limit it waits for."""

    seconds: float
    limit: str


class Meter:
    """Counts calls and tokens of the last minute, and the calls that are under way."""

    __slots__ = (
        "_blocked_until",
        "_ended",
        "_log",
        "_open",
        "_output_tokens",
        "_seconds",
        "quota",
        "requests",
        "tokens",
        "window_seconds",
    )

    def __init__(self, quota: Quota, window_seconds: float = WINDOW_SECONDS) -> None:
        self.quota, self.window_seconds = quota, window_seconds
        self.requests = self.tokens = self._ended = 0
        """Of the last minute. Tokens of calls under way are expected, those of the others are known."""
        self._log: deque[Grant] = deque()
        self._open: set[Grant] = set()
        self._blocked_until = -math.inf
        self._output_tokens, self._seconds = _FIRST_GUESS_TOKENS, _FIRST_GUESS_SECONDS

    @property
    def in_flight(self) -> int:
        return len(self._open)

    @property
    def counts_minutes(self) -> bool:
        """Whether anything is limited but the number of calls at once."""
        return self.quota.requests_per_minute is not None or self.quota.tokens_per_minute is not None

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
        """Whether a call of this size may be sent now. One that no minute could hold is sent when the minute is empty."""
        quota = self.quota
        return (
            (quota.requests_per_minute is None or self.requests < quota.requests_per_minute)
            and (quota.tokens_per_minute is None or not self.tokens or self.tokens + tokens <= quota.tokens_per_minute)
            and (quota.in_flight is None or self.in_flight < quota.in_flight)
            and now >= self._blocked_until
        )

    def free_part(self) -> float:
        """How much of the minute is left, by the limit that has less: 1 is all of it."""
        quota, free = self.quota, 1.0
        if quota.requests_per_minute is not None:
            free = 1 - self.requests / quota.requests_per_minute
        if quota.tokens_per_minute is not None:
            free = min(free, 1 - self.tokens / quota.tokens_per_minute)
        return max(0.0, free)

    def part_of(self, tokens: int) -> float:
        """How much of the minute a call takes, by the limit of which it takes more."""
        quota = self.quota
        of_requests = 1 / quota.requests_per_minute if quota.requests_per_minute is not None else 0.0
        of_tokens = tokens / quota.tokens_per_minute if quota.tokens_per_minute is not None else 0.0
        return min(1.0, max(of_requests, of_tokens)) if self.counts_minutes else 1.0

    def take(self, tokens: int, now: float) -> Grant:
        grant = Grant(now, tokens)
        self._log.append(grant)
        self.requests += 1
        self.tokens += tokens
        self._open.add(grant)
        return grant

    def end(self, grant: Grant, now: float, prompt_tokens: int = 0, output_tokens: int | None = None) -> None:
        """A call is over. What it really took counts from now on, where that is known."""
        grant.is_open = False
        self._open.discard(grant)
        self._ended += 1
        self._seconds += (now - grant.at - self._seconds) * max(_WEIGHT, 1 / self._ended)
        if output_tokens is not None:
            self._output_tokens += (output_tokens - self._output_tokens) * _WEIGHT
            self.charge(grant, grant.requests, prompt_tokens + output_tokens)

    def take_back(self, grant: Grant) -> None:
        """It was never sent: nothing of it counts."""
        grant.is_open = False
        self._open.discard(grant)
        self.charge(grant, 0, 0)

    def forget(self, grant: Grant) -> None:
        """The same, where nobody waits for it to expire: it does not stay in the log either."""
        self.take_back(grant)
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
        """It is not needed any more."""

    def next_change(self, now: float) -> float | None:
        """When there will be more room without any call ending; None where that cannot be."""
        times = [self._blocked_until] if self._blocked_until > now else []
        if self._log:
            times.append(self._log[0].at + self.window_seconds)
        return min(times, default=None)

    def wait(self, tokens: int, now: float, ahead: int = 0, tokens_ahead: int = 0) -> Wait:
        """How long until a call of this size finds room, after the calls that go ahead of it."""
        quota = self.quota
        waits = []
        if quota.requests_per_minute is not None:
            seconds = self._wait_for_requests(ahead + 1, quota.requests_per_minute, now)
            waits.append(Wait(seconds, f"quota of {_count(quota.requests_per_minute, 'request')} a minute"))
        if quota.tokens_per_minute is not None:
            own = min(tokens, quota.tokens_per_minute)
            seconds = self._wait_for_tokens(tokens_ahead + own, quota.tokens_per_minute, now)
            waits.append(Wait(seconds, f"quota of {_count(quota.tokens_per_minute, 'token')} a minute"))
        if quota.in_flight is not None:
            left = [seconds_left(now - grant.at, self._seconds) for grant in self._open]
            seconds = wait_for_slot(left, ahead, quota.in_flight, self._seconds)
            waits.append(Wait(seconds, f"quota of {quota.in_flight:,} at once"))
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


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count != 1 else ''}"
