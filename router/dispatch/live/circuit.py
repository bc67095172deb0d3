"""Circuit breaker of a target: rests after failures, named waits, model loads. Times are given."""

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
"""Failures in a row that mark a target as failed although other calls are pending."""
_NEVER = float("-inf")
_MAX_CLOSED_SECONDS = 900.0
"""Longest wait a target can impose before one request tries it: quotas are raised, and hosts err."""
_PROBE_SECONDS = 60.0
"""How often a request that only closed targets can serve probes them."""
_LOADING_KNOWN_SECONDS = 5.0


class Circuit:
    """After five failures in a row a target rests for 1 s, then 2 s, 4 s, at most a minute.

    A fault that only the operator can fix starts a rest at once: a rejected key stays rejected. After each rest one request
    probes the target. Any answer ends the rest, and so does the health of a local engine that was away.
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
        self.failing_since = _NEVER
        self.served_at = self._failed_at = _NEVER
        self.rest_seconds = self.rested_until = 0.0
        self.failed_with = ""
        self.fault: AccountFault | None = None
        """Code of the last failure, and the fault if only the operator can fix it."""
        self.closed_until = self._probe_at = 0.0
        self.asked_at = 0.0
        """When it last refused with a time, or was last probed before that time."""
        self.probe = ""
        """The request that probes it, after a rest or before the time it named."""
        self.loading, self.loading_until = "", 0.0
        """Its words while loading, and how long those are trusted."""

    @property
    def is_open(self) -> bool:
        """Whether it rests or is being probed."""
        return self.rest_seconds > 0

    def serve(self, now: float) -> None:
        self.served_at = now
        self.failures = 0
        self.rest_seconds = self.rested_until = 0.0

    def answer(self, now: float) -> None:
        """A refusal for the request's own fault: the target answers, but earlier failures still count."""
        self.served_at = now

    def fail(
        self, now: float, failed_with: str = "", *, has_named_time: bool = False, fault: AccountFault | None = None
    ) -> None:
        """A named time replaces a rest. Failures during a rest are of earlier calls, and do not prolong it."""
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self._failed_at, self.failed_with, self.fault = now, failed_with, fault
        opens = fault is not None or (not has_named_time and self.failures >= _OPENS_AT)
        if opens and now >= self.rested_until:
            self.rest_seconds = min(max(self.rest_seconds * 2, _FIRST_REST_SECONDS), _LONGEST_REST_SECONDS)
            self.rested_until = now + self.rest_seconds

    def recover(self) -> None:
        """It could not be reached, and answers again. The next failure begins another rest."""
        self.failures, self._failed_at = min(self.failures, _OPENS_AT - 1), _NEVER
        self.rest_seconds = self.rested_until = 0.0

    def is_resting(self, now: float) -> bool:
        return self.is_open and (now < self.rested_until or bool(self.probe))

    def close(self, now: float, seconds: float) -> None:
        """It asked to be left alone. The latest time counts, even if shorter."""
        self.asked_at = now
        self.closed_until, self._probe_at = now + seconds, now + min(seconds, _MAX_CLOSED_SECONDS)

    def closed_seconds(self, now: float) -> float:
        """How long to leave it alone; a running probe keeps other requests away too."""
        if now < min(self._probe_at, self.closed_until):
            return self._probe_at - now
        return max(0.0, self.closed_until - now) if self.probe else 0.0

    def may_probe(self, now: float) -> bool:
        """Whether a request that only this target can serve may try before the named time: hosts err."""
        return not self.probe and now - self.asked_at >= _PROBE_SECONDS

    def load(self, words: str, now: float) -> None:
        """A loading target is alive: earlier failures are over."""
        self.loading, self.loading_until = words, now + _LOADING_KNOWN_SECONDS
        self.serve(now)

    def standing(self, now: float, since: float, in_flight: int) -> Track:
        """Its record since `since`, when a request's own target began to fail."""
        if self.failures and now - self._failed_at < KEPT_SECONDS and (self.failures >= _ENOUGH_TO_JUDGE or not in_flight):
            return Track.FAILED
        if not self.failures and self.served_at >= since and now - self.served_at < KEPT_SECONDS:
            return Track.PROVEN
        return Track.AWAITED if in_flight else Track.UNKNOWN


def is_targets_failure(error: TandemError) -> bool:
    """Whether the target is to blame, rather than the request, the caller's key, a queue or a load."""
    if isinstance(error, (UpstreamQueued, UpstreamLoading)):
        return False
    return isinstance(error, UpstreamError) and not blames_request(error)


def blames_request(error: TandemError) -> bool:
    return isinstance(error, UpstreamRefused) and error.blames_the_request
