"""The meter of a quota that several routers share: each call is counted here alone, against this router's part of the quota."""

from collections.abc import Callable

from router.contract.allowance import Allowance, Part, Use
from router.contract.target import Quota
from router.limits.queue import MakeMeter
from router.limits.quota import WINDOW_SECONDS, Grant, Meter, Wait, seconds_left, wait_for_slot

_NO_QUOTA = Quota()
_REQUESTS, _TOKENS, _IN_FLIGHT = "requests_per_minute", "tokens_per_minute", "in_flight"
_WORDS = {_REQUESTS: "requests a minute", _TOKENS: "tokens a minute", _IN_FLIGHT: "at once"}
_SLICES = 10
"""How many slices an equal part of a limit has."""
_AWAY_SECONDS = 2.0
"""When a store that is away may be back: it is probed twice a second."""
_AHEAD = 4
"""More is asked for when less than a slice divided by this is left: then nobody waits for the answer."""


class SharedMeter(Meter):
    """Counts what this router sent. More of the quota is asked for in the background, by the question whether there is room."""

    __slots__ = ("_allowance", "_clock", "_name", "_parts", "_quota", "_wake")

    def __init__(
        self,
        quota: Quota,
        allowance: Allowance,
        name: tuple[str, ...],
        clock: Callable[[], float],
        wake: Callable[[], None],
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        self._allowance, self._name, self._clock, self._wake = allowance, name, clock, wake
        self._parts: dict[str, Part] = {}
        self._quota = _NO_QUOTA
        super().__init__(quota, window_seconds)

    @property
    def quota(self) -> Quota:
        return self._quota

    @quota.setter
    def quota(self, quota: Quota) -> None:
        if quota == self._quota:
            return
        self._quota = quota
        for kind in (_REQUESTS, _TOKENS, _IN_FLIGHT):
            limit, part = getattr(quota, kind), self._parts.get(kind)
            if limit is None:
                if part is not None:
                    self._parts.pop(kind).close()
            elif part is None:
                self._parts[kind] = self._allowance.part((*self._name, kind), limit, self._use_of(kind), self._wake)
            else:
                part.limit = limit

    def has_room(self, tokens: int, now: float) -> bool:
        """Whether this router's part has room. If it does not, more is asked for, and `wake` is called when there is."""
        if now < self._blocked_until:
            return False
        has_room = True
        for kind, part in self._parts.items():
            needed = self._used(kind) + self._needs(kind, tokens, part)
            if needed > part.allowed:
                part.ask(needed - part.allowed, 0 if kind == _IN_FLIGHT else part.slice)
                has_room = False
        return has_room

    @property
    def is_blind(self) -> bool:
        """Whether more cannot be asked for, since the store that keeps the parts is away."""
        return any(part.is_blind for part in self._parts.values())

    async def reach_room(self, tokens: int) -> None:
        """Wait until there is room, or it is known that there will not be any soon."""
        while not self.has_room(tokens, self._clock()):
            parts = self._parts.items()
            lacking = [part for kind, part in parts if self._used(kind) + self._needs(kind, tokens, part) > part.allowed]
            if not lacking or not all([await part.answered() for part in lacking]):
                return

    def take(self, tokens: int, now: float) -> Grant:
        grant = super().take(tokens, now)
        for kind, part in self._parts.items():
            if kind != _IN_FLIGHT and part.allowed - self._used(kind) < part.slice // _AHEAD:
                part.ask(1, part.slice)
        return grant

    def free_part(self) -> float:
        """How much of the minute is left for this router, by the limit that has less."""
        free = 1.0
        for kind, part in self._parts.items():
            if kind != _IN_FLIGHT:
                free = min(free, (part.reachable - self._used(kind)) / part.limit)
        return max(0.0, free)

    def next_change(self, now: float) -> float | None:
        times = [at] if (at := super().next_change(now)) is not None else []
        times += [now + seconds for part in self._parts.values() if (seconds := part.asks_in_seconds)]
        return min(times, default=None)

    def wait(self, tokens: int, now: float, ahead: int = 0, tokens_ahead: int = 0) -> Wait:
        """The same, where routers that use a limit at the same time are expected to have equal parts of it in the end."""
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
            if self._used(kind) + self._needs(kind, tokens, part) > part.reachable:
                seconds = max(seconds, self._wait_for_others(kind, part, now))
            waits.append(Wait(seconds, f"quota of {part.limit:,} {_WORDS[kind]}"))
        waits.append(Wait(max(0.0, self._blocked_until - now), "rate limit"))
        return max(waits, key=lambda wait: wait.seconds)

    def _wait_for_others(self, kind: str, part: Part, now: float) -> float:
        """How long until any router has something to give away, as far as anybody knows."""
        if kind == _IN_FLIGHT:
            return self._seconds
        times = [self._log[0].at + self.window_seconds - now] if self._log else []
        if (opens_in := part.opens_in_seconds) is not None:
            times.append(opens_in)
        unknown = _AWAY_SECONDS if part.is_blind else self.window_seconds
        return max(min(times, default=unknown), part.asks_in_seconds or 0.0)

    def close(self) -> None:
        """Give back what is not in use."""
        for part in self._parts.values():
            part.close()

    def _needs(self, kind: str, tokens: int, part: Part) -> int:
        """One that no minute could hold is sent when the minute is empty."""
        return min(tokens, part.limit) if kind == _TOKENS else 1

    def _used(self, kind: str) -> int:
        return self.requests if kind == _REQUESTS else self.tokens if kind == _TOKENS else self.in_flight

    def _use_of(self, kind: str) -> Callable[[], Use]:
        def use() -> Use:
            now = self._clock()
            if kind == _IN_FLIGHT:
                return Use(self.in_flight)
            # What is too old counts for nothing, also before it is taken from the log, which is not done here.
            old = self._log_until(now - self.window_seconds)
            units = sum(grant.requests if kind == _REQUESTS else grant.tokens for grant in old)
            oldest = self._log[len(old)].at if len(self._log) > len(old) else None
            frees_in = oldest + self.window_seconds - now if oldest is not None else None
            return Use(self._used(kind) - units, frees_in)

        return use

    def _log_until(self, at: float) -> list[Grant]:
        found: list[Grant] = []
        for grant in self._log:
            if grant.at > at:
                break
            found.append(grant)
        return found


def share_quotas(allowance: Allowance, target: str, key: str) -> MakeMeter:
    """Makes the meter of a target's quota, and of a caller's key where each key has a quota of its own."""
    name = ("target", target, key) if key else ("target", target)
    return lambda quota, clock, wake: SharedMeter(quota, allowance, name, clock, wake)
