"""The queue inside a target, inferred from late first tokens. Times are given.

A queue comes and goes within seconds, so it is kept apart from the usual time to first token. The call opened last decides: a
prompt first token ends the queue; a late or abandoned call shows one.
"""

_LATE_SECONDS, _LATE_FACTOR = 0.5, 3.0
_LEAST_HALF_LIFE_SECONDS = 2.0
_HALF_LIVES_IN_QUEUE = 4.0
_STANDING_HALF_LIFE_SECONDS = 10.0
_STANDING_SECONDS = 120.0
_KEPT_SECONDS = 300.0
_NEVER, _NOT_YET = float("-inf"), float("inf")


def is_late(seconds: float, usual_seconds: float) -> bool:
    """Whether the delay of a first token exceeds chance. `seconds` are those beyond the usual."""
    return seconds > _LATE_SECONDS + _LATE_FACTOR * usual_seconds


class Lateness:
    __slots__ = ("_known_at", "_known_seconds", "_late_since", "_opened_at", "_seen_at", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        """Wait of the last late call; 0 after a prompt one."""
        self._seen_at = self._opened_at = self._known_at = _NEVER
        self._known_seconds = 0.0
        self._late_since = _NOT_YET

    def begin_late(self, seconds: float, opened_at: float, now: float) -> None:
        if opened_at >= self._opened_at:
            self._see(seconds, opened_at, now)
            self._known_seconds, self._known_at = seconds, now

    def leave(self, seconds: float, opened_at: float, now: float) -> None:
        """A call gave up waiting. Its full wait is unknown: assume twice as long, or the recent wait if longer."""
        if opened_at >= self._opened_at:
            self._see(max(self.seconds, self._lately(now), 2 * seconds), opened_at, now)

    def _see(self, seconds: float, opened_at: float, now: float) -> None:
        self.seconds, self._opened_at, self._seen_at = seconds, opened_at, now
        self._late_since = min(self._late_since, opened_at)

    def begin_promptly(self, opened_at: float) -> None:
        if opened_at >= self._opened_at:
            self._opened_at, self.seconds, self._late_since = opened_at, 0.0, _NOT_YET

    def is_standing(self, now: float) -> bool:
        """Whether no call has been prompt for so long that the wait is permanent."""
        return now - self._late_since > _STANDING_SECONDS

    def expect(self, now: float) -> float:
        """Expected wait. It fades, so that a request soon probes: sooner after a short queue."""
        half_life = max(_LEAST_HALF_LIFE_SECONDS, self.seconds / _HALF_LIVES_IN_QUEUE)
        if self.is_standing(now):
            half_life = max(half_life, _STANDING_HALF_LIFE_SECONDS)
        return float(self.seconds * 0.5 ** (max(0.0, now - self._seen_at) / half_life))

    def expect_behind(self, seconds: float, usual_seconds: float, now: float) -> float:
        """At least the delay of an overdue call; once plainly late, as long as earlier calls waited."""
        if self.seconds:  # this call probes: others do not follow it
            return max(seconds, self.seconds)
        return max(seconds, self._lately(now)) if is_late(seconds, usual_seconds) else max(0.0, seconds)

    def _lately(self, now: float) -> float:
        return self._known_seconds if now - self._known_at < _KEPT_SECONDS else 0.0
