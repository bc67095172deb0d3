"""The yardstick: how long turns take until they are done, wrong first answers included, and what they cost.

`eval`, `replay`, `stats`, the screen and the benches measure with it, so that they cannot disagree. It knows what a turn took,
or would take, on each tier, and whether the turn was quick or long, or how likely it is to be long. What nobody can measure is
assumed, and printed next to the figures: how often fast's first answer is wrong, and what that costs the person.

The decision weighs a wrong first answer more heavily than in seconds, as the preference says: see `contract.economics`.
"""

from typing import NamedTuple

from router.contract.economics import ASSUMED_RATES, FLIP_SCORES
from router.contract.request import JsonObject
from router.contract.target import Speed
from router.contract.words import Preference, Tier

TOKENS_PER_CALL, TOOL_SECONDS = 199.0, 0.3
"""Of recorded turns: what a model writes in a call, and a tool's median time. For turns of which only the calls are known."""


class Assumptions(NamedTuple):
    """What is assumed of a wrong first answer of fast. The turn is then done again on deep, which comes on top."""

    fails_quick: float = ASSUMED_RATES.quick
    """The share of quick turns in which fast's first answer is wrong."""
    fails_long: float = ASSUMED_RATES.long
    """The same for long turns."""
    failure_seconds: float = 120.0
    """What a wrong answer costs the person: to notice it, to say so, to undo it."""

    def chance(self, p: float) -> float:
        """The chance of a wrong first answer, for a turn that is long with the chance p (0: it was quick; 1: it was long)."""
        return self.fails_quick + (self.fails_long - self.fails_quick) * p

    def sentence(self) -> str:
        """All of it in one line."""
        return (
            f"assumed: fast's first answer is wrong in {100 * self.fails_quick:g} % of quick and {100 * self.fails_long:g} % of"
            f" long turns, which costs you {self.failure_seconds:g} s and the turn again on deep"
        )

    def as_json(self) -> JsonObject:
        return {**self._asdict()}


class Took(NamedTuple):
    """What the first answer to a turn takes on one tier. Money is None where no price is known."""

    seconds: float
    usd: float | None = None


class Done(NamedTuple):
    """What a turn takes until it is done: `seconds` and `usd` with the chance of a redo, which `redo_seconds` are of."""

    seconds: float
    redo_seconds: float
    usd: float | None
    wrong: float
    """The chance that the first answer is wrong."""


def to_done(tier: Tier, fast: Took, deep: Took, p: float, assumed: Assumptions) -> Done:
    """A turn on a tier, until it is done. p is 0 for one that was quick, 1 for one that was long, else the chance of that."""
    if tier is Tier.DEEP:
        return Done(deep.seconds, 0.0, deep.usd, 0.0)
    chance = assumed.chance(p)
    redo = chance * (assumed.failure_seconds + deep.seconds)
    usd = None if fast.usd is None or deep.usd is None else fast.usd + chance * deep.usd
    return Done(fast.seconds + redo, redo, usd, chance)


def took(speed: Speed, calls: float) -> Took:
    """What a turn takes of which only the calls are known, on a target of this speed."""
    return Took(calls * (speed.ttft_seconds + TOKENS_PER_CALL / speed.tokens_per_second + TOOL_SECONDS))


def regret_of(tier: Tier, *, is_long: bool, preference: Preference = Preference.BALANCED) -> float:
    """What a choice costs, in quick turns that waited for deep, now that it is known what the turn was.

    It is least, on average, for whoever sends to deep from the preference's own score on.
    """
    if is_long and tier is Tier.FAST:
        flip = FLIP_SCORES[preference]
        return (1 - flip) / flip
    return 1.0 if tier is Tier.DEEP and not is_long else 0.0
