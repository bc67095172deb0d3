"""A figure of a target as it lately was, fading into what is typical of it."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median

_KEPT_SAMPLES = 15
_HALF_LIFE_SECONDS = 10.0
_BOUND = 20.0
"""A sample further than this factor from typical is an accident, not a speed."""


@dataclass(slots=True)
class Samples:
    """What was lately seen of one of a target's figures."""

    typical: float
    values: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_SAMPLES))
    middle: float = 0.0
    newest_at: float = 0.0

    def add(self, value: float, now: float) -> None:
        self.values.append(min(max(value, self.typical / _BOUND), self.typical * _BOUND))
        self.middle = median(self.values)  # here, where nobody waits, and not with every decision
        self.newest_at = now

    @property
    def usual(self) -> float:
        """The recent median, however long ago it was."""
        return self.middle if self.values else self.typical

    def current(self, now: float) -> float:
        """The recent median, fading into typical: a target once slow is tried again."""
        if not self.values:
            return self.typical
        weight: float = 0.5 ** (max(0.0, now - self.newest_at) / _HALF_LIFE_SECONDS)
        return weight * self.middle + (1 - weight) * self.typical
