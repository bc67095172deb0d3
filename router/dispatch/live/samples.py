"""A target's figure as lately seen, fading within seconds into the usual.

The usual is the median over minutes of use, an hour or more; before any, the configured value.
"""

from collections import deque
from collections.abc import Sequence
from statistics import median

from msgspec import Struct, field

_KEPT_SAMPLES = 15
_HALF_LIFE_SECONDS = 10.0
FADED_SECONDS = 80 * _HALF_LIFE_SECONDS
"""After this nothing recent is left: a float has 53 bits, and a sample is at most 2 ** 10 times the usual."""
_KEPT_MINUTES = 61
_MINUTE_SECONDS = 60.0
_UNSEEN_HALF_LIFE_SECONDS = 6 * 3600.0
"""Half-life of an unseen figure, per minute in which it was seen."""
_BOUND = 1_000.0
"""A sample further from the usual than this factor is an accident. A guess may be off by a hundred."""
_LONG_AGO = float("-inf")


class Samples(Struct):
    """Measurements of one figure. `typical` is the configured value."""

    typical: float
    values: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_SAMPLES))
    middle: float = 0.0
    newest_at: float = 0.0
    minutes: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_MINUTES))
    """The recent median at the end of each minute of use."""
    minute_at: float = _LONG_AGO
    settled: float = 0.0

    def __post_init__(self) -> None:
        self.settled = self.typical

    def add(self, value: float, now: float) -> None:
        self.values.append(min(max(value, self.settled / _BOUND), self.settled * _BOUND))
        self.middle = median(self.values)  # here, off the path of decisions
        self.newest_at = now
        if now - self.minute_at >= _MINUTE_SECONDS:
            self.minutes.append(self.middle)
            self.minute_at = now
            self.settle(now)
        else:
            self.minutes[-1] = self.middle
            if len(self.minutes) == 1:
                self.settled = self.middle

    def recall(self, minutes: Sequence[float], newest_at: float) -> None:
        """Take measurements from before the start, oldest first."""
        self.minutes = deque((*minutes, *self.minutes), maxlen=_KEPT_MINUTES)
        if not self.values:
            self.newest_at = newest_at

    def settle(self, now: float) -> None:
        """Compute the usual. Unseen, it fades into `typical` within hours or days, so that a slow target is retried."""
        if not self.minutes:
            self.settled = self.typical
            return
        weight: float = 0.5 ** (max(0.0, now - self.newest_at) / (_UNSEEN_HALF_LIFE_SECONDS * len(self.minutes)))
        self.settled = weight * median(self.minutes) + (1 - weight) * self.typical

    def follow(self, typical: float) -> None:
        self.typical = typical
        if not self.minutes:
            self.settled = typical

    def forget(self) -> None:
        self.values.clear()
        self.minutes.clear()
        self.minute_at, self.settled = _LONG_AGO, self.typical

    @property
    def is_learned(self) -> bool:
        return bool(self.minutes)

    @property
    def usual(self) -> float:
        """The recent median, of any age."""
        return self.middle if self.values else self.settled

    def current(self, now: float) -> float:
        """The recent median, fading into the usual so that a slow target is tried again."""
        if not self.values:
            return self.settled
        weight: float = 0.5 ** (max(0.0, now - self.newest_at) / _HALF_LIFE_SECONDS)
        return weight * self.middle + (1 - weight) * self.settled
