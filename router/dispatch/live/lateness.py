"""The queue on a target's own side, as late first tokens show it. No clock: times are given.

A queue is no slowness: it comes and goes within seconds, so it is kept apart from the usual time to first token. What counts is
the call that was opened last. One that begins as promptly as usual ends the queue, and one that is late, or that nobody waited
for any longer, shows it.
"""

_LATE_SECONDS, _LATE_FACTOR = 0.5, 3.0
_LEAST_HALF_LIFE_SECONDS = 2.0
_HALF_LIVES_IN_QUEUE = 4.0
_STANDING_HALF_LIFE_SECONDS = 10.0
_STANDING_SECONDS = 120.0
_KEPT_SECONDS = 300.0
_NEVER, _NOT_YET = float("-inf"), float("inf")


def is_late(seconds: float, usual_seconds: float) -> bool:
    """Whether a call waits longer for its first token than it would by chance. `seconds` are those beyond what is usual."""
    return seconds > _LATE_SECONDS + _LATE_FACTOR * usual_seconds


class Lateness:
    __slots__ = ("_known_at", "_known_seconds", "_late_since", "_opened_at", "_seen_at", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        """How long the last late call waited; none after one that was prompt."""
        self._seen_at = self._opened_at = self._known_at = _NEVER
        self._known_seconds = 0.0
        self._late_since = _NOT_YET

    def begin_late(self, seconds: float, opened_at: float, now: float) -> None:
        if opened_at >= self._opened_at:
            self._see(seconds, opened_at, now)
            self._known_seconds, self._known_at = seconds, now

    def leave(self, seconds: float, opened_at: float, now: float) -> None:
        """A call ended while it waited. How much longer it would have been nobody knows: as long again, or as lately."""
        if opened_at >= self._opened_at:
            self._see(max(self.seconds, self._lately(now), 2 * seconds), opened_at, now)

    def _see(self, seconds: float, opened_at: float, now: float) -> None:
        self.seconds, self._opened_at, self._seen_at = seconds, opened_at, now
        self._late_since = min(self._late_since, opened_at)

    def begin_promptly(self, opened_at: float) -> None:
        """A call has begun without a wait: so would others that come after it."""
        if opened_at >= self._opened_at:
            self._opened_at, self.seconds, self._late_since = opened_at, 0.0, _NOT_YET

    def is_standing(self, now: float) -> bool:
        """Whether no call has been prompt for so long that this is no queue which comes and goes."""
        return now - self._late_since > _STANDING_SECONDS

    def expect(self, now: float) -> float:
        """How long a request would wait. It fades, so that one goes there to find out: the sooner the shorter the queue was."""
        half_life = max(_LEAST_HALF_LIFE_SECONDS, self.seconds / _HALF_LIVES_IN_QUEUE)
        if self.is_standing(now):
            half_life = max(half_life, _STANDING_HALF_LIFE_SECONDS)
        return float(self.seconds * 0.5 ** (max(0.0, now - self._seen_at) / half_life))

    def expect_behind(self, seconds: float, usual_seconds: float, now: float) -> float:
        """The same while a call waits that should have begun so long ago.

        Its wait is the least that others would have. Once it is plainly late, they would wait as long as those before them.
        """
        if self.seconds:  # this call is finding out: others do not follow it
            return max(seconds, self.seconds)
        return max(seconds, self._lately(now)) if is_late(seconds, usual_seconds) else max(0.0, seconds)

    def _lately(self, now: float) -> float:
        return self._known_seconds if now - self._known_at < _KEPT_SECONDS else 0.0
