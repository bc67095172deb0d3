"""How likely a running turn on fast is to end wrong, from two counts.

Fitted by `python -m tests.lab rescue`; `docs/how-it-works/sessions.md` has the figures.
"""

import math
from typing import NamedTuple

FROM_CALL = 20
"""Before this call, ranking by the counts is no better than chance."""
_STEADY_CHARS = 50
"""Added to the mean, so that one short line does not make a quiet agent look uneven."""


class RescueWeights(NamedTuple):
    """Log-odds for each count, usual values, and the excess that raises the alarm."""

    unevenness: float
    edits: float
    usual: float
    usual_unevenness: float
    alarm: float

    def read(self, edits: int, unevenness: float) -> float:
        """By how much, in log-odds, a turn is likelier than usual to end wrong.

        An agent that writes nothing between calls counts as usually uneven: silence says nothing.
        """
        return self.unevenness * (unevenness or self.usual_unevenness) + self.edits * math.log1p(edits) - self.usual


SHIPPED = RescueWeights(unevenness=0.876, edits=0.375, usual=1.824, usual_unevenness=1.402, alarm=0.724)


def measure_unevenness(calls: int, chars: float, squares: float) -> float:
    """How unevenly the agent writes between calls: spread over mean.

    `chars` and `squares` sum the characters before each call, and their squares. An agent at work writes a line before each
    call; a stuck one calls tools in silence, then thinks at length. A ratio, so that talkative models do not look troubled.
    """
    if not calls:
        return 0.0
    mean = chars / calls
    return math.sqrt(max(squares / calls - mean * mean, 0.0)) / (mean + _STEADY_CHARS)
