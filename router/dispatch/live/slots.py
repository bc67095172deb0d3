"""How many calls a target serves at once, as its calls show it. No clock: times are given.

A local engine has one slot or a few. What finds none free waits there without a byte until another call ends. That pattern is
how the number of slots is learned: a late call that begins as soon as another has ended, or that gave up waiting while others
streamed, if it waited for long enough while the target was never idle. It takes two such cases, and more streams at once than
were thought to fit refute it. What is learned informs the expected wait; it never keeps a request from being sent.
"""

_CASES_NEEDED = 2
_CASES_KEPT_SECONDS = 600.0
_SURE_SECONDS = 300.0
"""After this time without another case, one request is sent to a target that seems full, to find out."""
_SEEN_KEPT_SECONDS = 3600.0
"""How long it is remembered how many calls streamed at once: an engine may be started again with fewer slots."""
_OVERLAP_SECONDS = 0.1
"""Streams that overlap for less than this may have followed each other: the end of one is noted after the start of the next."""
_HAND_OVER_SECONDS = 0.25
_BUSY_SECONDS = 0.5
"""How long a call must wait at a target that is never idle meanwhile, and twice the usual time to first token more."""
_MAX_ANSWERS = 10
"""How many answers the usual length is averaged over."""


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
        """When each stream that is under way had its first token."""
        self.count = 0
        """How many calls it serves at once; 0 while that is not known."""
        self.seconds = 0.0
        """How long an answer lately took from its first token on; 0 before the first."""
        self._answers = self._cases = self._claimed = self._seen = self._ran = 0
        self._claimed_at = self._ended_at = self._seen_at = float("-inf")
        self._busy_since = float("-inf")
        """Since when it has served calls without a pause longer than from one call to the next."""

    def begin(self, name: str, served_from: float, usual_seconds: float, now: float) -> None:
        """A stream has its first token. It has been served since it was opened, or for a moment if it waited."""
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
        """A call that was opened then has begun late: whether it had to wait for a slot, as far as that is known."""
        follows = opened_at < self._ended_at and now - self._ended_at <= _HAND_OVER_SECONDS + 2 * usual_seconds
        follows = follows and self._is_long(self._ended_at - max(opened_at, self._busy_since), usual_seconds)
        if follows and len(self.begun) == self._ran:
            self._claim(self._ran, now)
        return follows and self.count > 0

    def leave_late(self, opened_at: float, usual_seconds: float, now: float) -> bool:
        """A call gave up waiting: whether it would have had to wait for a slot, as far as that is known."""
        if self.keeps_waiting(opened_at, usual_seconds, now):
            self._claim(len(self.begun), now)
        return 0 < self.count <= len(self.begun)

    def keeps_waiting(self, opened_at: float, usual_seconds: float, now: float) -> bool:
        """Whether a call seems to wait for others to end: they have streamed for long enough without a pause meanwhile."""
        return bool(self.begun) and self._is_long(now - max(opened_at, self._busy_since), usual_seconds)

    @staticmethod
    def _is_long(busy_seconds: float, usual_seconds: float) -> bool:
        return busy_seconds > _BUSY_SECONDS + 2 * usual_seconds

    def at_least(self, now: float) -> int:
        if now - self._seen_at > _SEEN_KEPT_SECONDS:
            self._seen = 0
        return self._seen

    def is_sure(self, now: float) -> bool:
        """Whether the number of slots is known, and was lately confirmed. Forgets it where more calls stream at once."""
        if len(self.begun) > self.count:
            self._see(now)
        return self.count > 0 and now - self._claimed_at <= _SURE_SECONDS

    def _claim(self, count: int, now: float) -> None:
        """One more case in which this many calls seemed to be all that fit."""
        if count < self.at_least(now):
            return
        if count != self._claimed or now - self._claimed_at > _CASES_KEPT_SECONDS:
            self._claimed, self._cases = count, 0
        self._cases, self._claimed_at = self._cases + 1, now
        if self._cases >= _CASES_NEEDED:
            self.count = count

    def _see(self, now: float) -> None:
        """Count the calls that stream at once. What was thought to be all that fit is refuted by more."""
        count = sum(now - at >= _OVERLAP_SECONDS for at in self.begun.values())
        if count >= self.at_least(now):
            self._seen, self._seen_at = count, now
        if count > self._claimed:
            self._cases = 0
        if count > self.count:
            self.count = 0
