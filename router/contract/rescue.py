"""How likely a running turn is to end wrong, by two counts of it: a few numbers, fitted by `python -m tests.lab rescue`.

The policies ask it about a turn that fast serves, and the lab measures it. `docs/how-it-works/sessions.md` has its figures.
"""

import math
from typing import NamedTuple

FROM_CALL = 20
"""Before this call the counts say nothing: ranking by them is no better than chance."""
_STEADY_CHARS = 50
"""Added to the mean, so that an agent which writes next to nothing is not called uneven for one short line."""


class RescueWeights(NamedTuple):
    """Log-odds for each count, what is usual, and how far above that a turn must be to be called in trouble."""

    unevenness: float
    edits: float
    usual: float
    usual_unevenness: float
    alarm: float

    def read(self, edits: int, unevenness: float) -> float:
        """By how much, in log-odds, a turn is likelier to end wrong than a usual one.

        An agent that writes nothing between its calls is taken to be as uneven as is usual: its silence says nothing.
        """
        return self.unevenness * (unevenness or self.usual_unevenness) + self.edits * math.log1p(edits) - self.usual


SHIPPED = RescueWeights(unevenness=0.876, edits=0.375, usual=1.824, usual_unevenness=1.402, alarm=0.724)


def measure_unevenness(calls: int, chars: float, squares: float) -> float:
    """How unevenly the agent writes between its calls: the spread of what it wrote before each of them, by the mean.

    `chars` is the sum of the characters before each call, and `squares` the sum of their squares. An agent that works through a
    task writes a line before each call; one that is stuck calls tools in silence and then thinks at length. A ratio, so that
    talkative models do not look troubled.
    """
    if not calls:
        return 0.0
    mean = chars / calls
    return math.sqrt(max(squares / calls - mean * mean, 0.0)) / (mean + _STEADY_CHARS)
