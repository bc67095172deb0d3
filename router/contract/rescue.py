"""How likely a running turn on fast is to end wrong. Fitted by `python -m tests.lab rescue`."""

import math
from typing import NamedTuple

FROM_CALL = 20
"""Before this call, ranking by the counts is no better than chance."""
_STEADY_CHARS = 50
"""So that one short line does not make a quiet agent look uneven."""


class RescueWeights(NamedTuple):
    """Log-odds for each count, usual values, and the excess that raises the alarm."""

    unevenness: float
    edits: float
    usual: float
    usual_unevenness: float
    alarm: float

    def read(self, edits: int, unevenness: float) -> float:
        """How much likelier than usual a turn is to end wrong, in log-odds. An agent that never writes counts as usual."""
        return self.unevenness * (unevenness or self.usual_unevenness) + self.edits * math.log1p(edits) - self.usual

    def hear(self, calls: int, edits: int, unevenness: float) -> float:
        """The log-odds that an alarm adds; 0 without one, as lesser differences prove nothing."""
        if calls < FROM_CALL:
            return 0.0
        excess = self.read(edits, unevenness)
        return excess if excess >= self.alarm else 0.0


SHIPPED = RescueWeights(unevenness=0.876, edits=0.375, usual=1.824, usual_unevenness=1.402, alarm=1.041)


def measure_unevenness(calls: int, chars: float, squares: float) -> float:
    """How unevenly the agent writes between calls: spread over mean, so that talkative models do not look troubled.

    `chars` and `squares` sum the characters before each call, and their squares. An agent at work writes a line before each
    call; a stuck one calls tools in silence, then thinks at length.
    """
    if not calls:
        return 0.0
    mean = chars / calls
    return math.sqrt(max(squares / calls - mean * mean, 0.0)) / (mean + _STEADY_CHARS)
