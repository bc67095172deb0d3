"""Whether requests may go to a target: it rests after failures, asked to be left alone, or loads its model. Times are given."""

from router.contract.errors import (
    TandemError,
    UpstreamError,
    UpstreamLoading,
    UpstreamQueued,
    UpstreamRefused,
)
from router.contract.words import AccountFault
from router.limits.retries import KEPT_SECONDS, Track

_OPENS_AT = 5
_FIRST_REST_SECONDS, _LONGEST_REST_SECONDS = 1.0, 60.0
_ENOUGH_TO_JUDGE = 3
"""This many failures in a row speak for themselves, though other calls are still awaited."""
_NEVER = float("-inf")
_MAX_CLOSED_SECONDS = 900.0
"""However long a target asks to be left alone, one request goes there after this: quotas are raised, and hosts err."""
_PROBE_SECONDS = 60.0
"""How often a request goes to targets that asked to be left alone, where there is no other that could serve it."""
_LOADING_KNOWN_SECONDS = 5.0
"""How long it is believed without asking that a target is still loading its model."""


class Circuit:
    """What one target's calls came to. After five failures in a row it rests for 1 s, then 2 s, 4 s, at most a minute.

    So it does after a first one that only the operator can fix: a rejected key will be rejected the next time too.
    After each rest one request finds out whether it serves again. Any answer ends the rest.
    """

    __slots__ = (
        "_failed_at",
        "_probe_at",
        "asked_at",
        "closed_until",
        "failed_with",
        "failing_since",
        "failures",
        "fault",
        "loading",
        "loading_until",
        "probe",
        "rest_seconds",
        "rested_until",
        "served_at",
    )

    def __init__(self) -> None:
        self.failures = 0
        """In a row, up to now."""
        self.failing_since = _NEVER
        """When the failures began that are the last ones known."""
        self.served_at = self._failed_at = _NEVER
        self.rest_seconds = self.rested_until = 0.0
        self.failed_with = ""
        self.fault: AccountFault | None = None
        """The code of its last failure, and what only the operator can correct, if it was that."""
        self.closed_until = self._probe_at = 0.0
        self.asked_at = 0.0
        """When it last refused with a time, or when a request last went there to find out whether that time was right."""
        self.probe = ""
        """The request that finds out whether it serves again, after a rest or before the time that it named."""
        self.loading, self.loading_until = "", 0.0
        """What it said when it was loading its model, and how long that is believed without asking again."""

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

    def fail(
        self, now: float, failed_with: str = "", *, has_named_time: bool = False, fault: AccountFault | None = None
    ) -> None:
        """It failed. One that named a time is left alone for that time, and needs no rest of our making.

        What fails during a rest was sent before it, and does not make it longer.
        """
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self._failed_at, self.failed_with, self.fault = now, failed_with, fault
        opens = fault is not None or (not has_named_time and self.failures >= _OPENS_AT)
        if opens and now >= self.rested_until:
            self.rest_seconds = min(max(self.rest_seconds * 2, _FIRST_REST_SECONDS), _LONGEST_REST_SECONDS)
            self.rested_until = now + self.rest_seconds

    def is_resting(self, now: float) -> bool:
        """Whether it is to be left alone after failures, or one request is finding out about it."""
        return self.is_open and (now < self.rested_until or bool(self.probe))

    def close(self, now: float, seconds: float) -> None:
        """It asked to be left alone. What it says last counts, be it less than what it said before."""
        self.asked_at = now
        self.closed_until, self._probe_at = now + seconds, now + min(seconds, _MAX_CLOSED_SECONDS)

    def closed_seconds(self, now: float) -> float:
        """How long to leave it alone. While a request finds out whether it is open again, no other goes there."""
        if now < min(self._probe_at, self.closed_until):
            return self._probe_at - now
        return max(0.0, self.closed_until - now) if self.probe else 0.0

    def may_probe(self, now: float) -> bool:
        """Whether a request that no other target can serve may go there, though it asked to be left alone: hosts err."""
        return not self.probe and now - self.asked_at >= _PROBE_SECONDS

    def load(self, words: str, now: float) -> None:
        """It says that it is loading its model: so it is alive, and earlier failures are over."""
        self.loading, self.loading_until = words, now + _LOADING_KNOWN_SECONDS
        self.serve(now)

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
