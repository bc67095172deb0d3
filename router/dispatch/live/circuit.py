"""Whether a target that fails is to rest: a count of its failures, and a rest that grows. No clock: times are given."""

from router.contract.errors import (
    TandemError,
    UpstreamError,
    UpstreamLoading,
    UpstreamQueued,
    UpstreamRefused,
)
from router.limits.retries import KEPT_SECONDS, Track

_OPENS_AT = 5
_FIRST_REST_SECONDS, _LONGEST_REST_SECONDS = 1.0, 60.0
_ENOUGH_TO_JUDGE = 3
"""This many failures in a row speak for themselves, though other calls are still awaited."""
_NEVER = float("-inf")


class Circuit:
    """What one target's calls came to. After five failures in a row it rests for 1 s, then 2 s, 4 s, at most a minute.

    So it does after a first one that only the operator can fix: a rejected key will be rejected the next time too.
    After each rest one request finds out whether it serves again. Any answer ends the rest.
    """

    __slots__ = ("_failed_at", "failing_since", "failures", "rest_seconds", "rested_until", "served_at")

    def __init__(self) -> None:
        self.failures = 0
        """In a row, up to now."""
        self.failing_since = _NEVER
        """When the failures began that are the last ones known."""
        self.served_at = self._failed_at = _NEVER
        self.rest_seconds = self.rested_until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether it is to rest, or to be asked by one request alone."""
        return self.rest_seconds > 0

    def serve(self, now: float) -> None:
        self.served_at = now
        self.failures = 0
        self.rest_seconds = self.rested_until = 0.0

    def answer(self, now: float) -> None:
        """It refused a request for the request's own fault: it answers, which says nothing of the failures before."""
        self.served_at = now

    def fail(self, now: float, *, has_named_time: bool = False, is_lasting: bool = False) -> None:
        """It failed. One that named a time is left alone for that time, and needs no rest of our making.

        What fails during a rest was sent before it, and does not make it longer.
        """
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self._failed_at = now
        opens = is_lasting or (not has_named_time and self.failures >= _OPENS_AT)
        if opens and now >= self.rested_until:
            self.rest_seconds = min(max(self.rest_seconds * 2, _FIRST_REST_SECONDS), _LONGEST_REST_SECONDS)
            self.rested_until = now + self.rest_seconds

    def standing(self, now: float, since: float, in_flight: int) -> Track:
        """What is known of it for a request whose own target has been failing since then."""
        if self.failures and now - self._failed_at < KEPT_SECONDS and (self.failures >= _ENOUGH_TO_JUDGE or not in_flight):
            return Track.FAILED
        if not self.failures and self.served_at >= since and now - self.served_at < KEPT_SECONDS:
            return Track.PROVEN
        return Track.AWAITED if in_flight else Track.UNKNOWN


def is_targets_failure(error: TandemError) -> bool:
    """Whether an error speaks against the target, and not against the request or its caller's key. Nor do a queue or a load."""
    if isinstance(error, (UpstreamQueued, UpstreamLoading)):
        return False
    return isinstance(error, UpstreamError) and not blames_request(error)


def blames_request(error: TandemError) -> bool:
    return isinstance(error, UpstreamRefused) and error.blames_the_request
