"""How many calls a target serves at once, inferred from its calls. Times are given.

A local engine has one slot or a few; a call without one waits silently until another ends. A late call that begins as soon as
another ended, or gave up while others streamed, is such a case if it waited long enough at a target that was never idle. Two
cases are needed, and more streams at once refute them. This informs the expected wait; it never blocks a request.
"""

_CASES_NEEDED = 2
_CASES_KEPT_SECONDS = 600.0
_SURE_SECONDS = 300.0
"""After this time without another case, one request probes a target that seems full."""
_SEEN_KEPT_SECONDS = 3600.0
"""How long the number of simultaneous streams is remembered: an engine may restart with fewer slots."""
_OVERLAP_SECONDS = 0.1
"""Streams that overlap for less may be consecutive: an end is noted after the next start."""
_HAND_OVER_SECONDS = 0.25
_BUSY_SECONDS = 0.5
"""Minimum wait at a target that is never idle, in addition to twice the usual time to first token."""
_MAX_ANSWERS = 10


class Slots:
    __slots__ = (
        "_answers",
        "_busy_since",
        "_cases",
        "_claimed",
        "_claimed_at",
        "_ended_at",
        "_ran",
        "_seen",
        "_seen_at",
        "begun",
        "count",
        "seconds",
    )

    def __init__(self) -> None:
        self.begun: dict[str, float] = {}
        """First token of each stream under way."""
        self.count = 0
        """Calls served at once; 0 if unknown."""
        self.seconds = 0.0
        """Recent duration of an answer from its first token; 0 before the first."""
        self._answers = self._cases = self._claimed = self._seen = self._ran = 0
        self._claimed_at = self._ended_at = self._seen_at = float("-inf")
        self._busy_since = float("-inf")
        """Since when it has been busy, but for gaps between two calls."""

    def begin(self, name: str, served_from: float, usual_seconds: float, now: float) -> None:
        """A first token. Served since the call was opened, or for a moment if it waited."""
        if not self.begun and served_from - self._ended_at > _HAND_OVER_SECONDS + 2 * usual_seconds:
            self._busy_since = served_from
        self.begun[name] = now

    def end(self, name: str, now: float) -> None:
        self._ended_at, self._ran = now, len(self.begun)
        if self._ran > 1 and self._ran >= self._seen:
            self._see(now)
        if self._answers < _MAX_ANSWERS:
            self._answers += 1
        self.seconds += (now - self.begun.pop(name) - self.seconds) / self._answers

    def begin_late(self, opened_at: float, usual_seconds: float, now: float) -> bool:
        """A call began late. Returns whether it is known to have waited for a slot."""
        follows = opened_at < self._ended_at and now - self._ended_at <= _HAND_OVER_SECONDS + 2 * usual_seconds
        follows = follows and self._is_long(self._ended_at - max(opened_at, self._busy_since), usual_seconds)
        if follows and len(self.begun) == self._ran:
            self._claim(self._ran, now)
        return follows and self.count > 0

    def leave_late(self, opened_at: float, usual_seconds: float, now: float) -> bool:
        """A call gave up. Returns whether it is known to have lacked a slot."""
        if self.keeps_waiting(opened_at, usual_seconds, now):
            self._claim(len(self.begun), now)
        return 0 < self.count <= len(self.begun)

    def keeps_waiting(self, opened_at: float, usual_seconds: float, now: float) -> bool:
        """Whether a call seems to wait for others, which have streamed long enough without a pause."""
        return bool(self.begun) and self._is_long(now - max(opened_at, self._busy_since), usual_seconds)

    @staticmethod
    def _is_long(busy_seconds: float, usual_seconds: float) -> bool:
        return busy_seconds > _BUSY_SECONDS + 2 * usual_seconds

    def at_least(self, now: float) -> int:
        if now - self._seen_at > _SEEN_KEPT_SECONDS:
            self._seen = 0
        return self._seen

    def is_sure(self, now: float) -> bool:
        """Whether the number of slots is known and lately confirmed. Forgets it if more calls stream at once."""
        if len(self.begun) > self.count:
            self._see(now)
        return self.count > 0 and now - self._claimed_at <= _SURE_SECONDS

    def _claim(self, count: int, now: float) -> None:
        if count < self.at_least(now):
            return
        if count != self._claimed or now - self._claimed_at > _CASES_KEPT_SECONDS:
            self._claimed, self._cases = count, 0
        self._cases, self._claimed_at = self._cases + 1, now
        if self._cases >= _CASES_NEEDED:
            self.count = count

    def _see(self, now: float) -> None:
        count = sum(now - at >= _OVERLAP_SECONDS for at in self.begun.values())
        if count >= self.at_least(now):
            self._seen, self._seen_at = count, now
        if count > self._claimed:
            self._cases = 0
        if count > self.count:
            self.count = 0
