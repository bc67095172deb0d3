"""A figure of a target as it lately was, fading within seconds into what it usually is.

What is usual is learned: a median over the minutes in which something was seen, an hour of use or more. Only before anything is
learned is it what the config says is typical.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

_KEPT_SAMPLES = 15
_HALF_LIFE_SECONDS = 10.0
FADED_SECONDS = 80 * _HALF_LIFE_SECONDS
"""After this nothing is left of what was lately seen: a float has 53 bits, and a sample is at most 2 ** 10 times the usual."""
_KEPT_MINUTES = 61
_MINUTE_SECONDS = 60.0
_UNSEEN_HALF_LIFE_SECONDS = 6 * 3600.0
"""How long a figure holds that nobody has seen since, for each minute in which it was seen."""
_BOUND = 1_000.0
"""A sample further than this factor from what is usual is an accident, not a speed. A guess may well be off by a hundred."""
_LONG_AGO = float("-inf")


@dataclass(slots=True)
class Samples:
    """What was seen of one of a target's figures. `typical` is the config's word for it."""

    typical: float
    values: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_SAMPLES))
    middle: float = 0.0
    newest_at: float = 0.0
    minutes: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_MINUTES))
    """What was seen in each minute of use: the recent median at its end."""
    minute_at: float = _LONG_AGO
    settled: float = 0.0
    """What it fades into."""

    def __post_init__(self) -> None:
        self.settled = self.typical

    def add(self, value: float, now: float) -> None:
        self.values.append(min(max(value, self.settled / _BOUND), self.settled * _BOUND))
        self.middle = median(self.values)  # here, where nobody waits, and not with every decision
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
        """Take what was seen before the router was started, the oldest first."""
        self.minutes = deque((*minutes, *self.minutes), maxlen=_KEPT_MINUTES)
        if not self.values:
            self.newest_at = newest_at

    def settle(self, now: float) -> None:
        """Work out what is usual. Unseen it fades into `typical` too, over hours or, if it was seen in many minutes, days.

        A target that was slow once, and is passed over for it, would never be asked again.
        """
        if not self.minutes:
            self.settled = self.typical
            return
        weight: float = 0.5 ** (max(0.0, now - self.newest_at) / (_UNSEEN_HALF_LIFE_SECONDS * len(self.minutes)))
        self.settled = weight * median(self.minutes) + (1 - weight) * self.typical

    def follow(self, typical: float) -> None:
        """Take another word of the config's, which counts until something is learned."""
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
        """The recent median, however long ago it was."""
        return self.middle if self.values else self.settled

    def current(self, now: float) -> float:
        """The recent median, fading into what is usual: a target that is slow for a while is tried again."""
        if not self.values:
            return self.settled
        weight: float = 0.5 ** (max(0.0, now - self.newest_at) / _HALF_LIFE_SECONDS)
        return weight * self.middle + (1 - weight) * self.settled
