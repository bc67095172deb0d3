"""The settings of the decision: what time is worth, what a turn takes, and what a wrong first answer costs."""

import math
from typing import Annotated, NamedTuple

from msgspec.structs import force_setattr
from pydantic import Field

from router.contract.block import ELSEWHERE, Block
from router.contract.words import Preference

FLIP_SCORES = {Preference.SPEED: 0.45, Preference.BALANCED: 0.22, Preference.QUALITY: 0.12}
"""Chance of a long task from which deep is chosen, without a wait, a cache or prices."""
_FLIPS_WITHIN = {Preference.SPEED: (0.10, 1.0), Preference.BALANCED: (0.10, 0.50), Preference.QUALITY: (0.0, 0.50)}
"""How far learned failure rates may move it. Clear quick asks stay on fast, except with `quality`; clear long ones on deep,
except with `speed`."""
_NEVER_BY_MONEY = 0.6
"""From this chance of a long task, the money that fast saves no longer pays for the risk."""


class FailureRates(NamedTuple):
    """How often fast's first answer is wrong and deep has to redo it."""

    quick: float = 0.05
    long: float = 0.25
    turns: int = 0
    """Turns learned from. 0: assumed."""

    def at(self, p: float) -> float:
        """The rate at a chance `p` of a long turn."""
        return self.quick + (self.long - self.quick) * p


ASSUMED_RATES = FailureRates()


class TurnSize(Block, frozen=True):
    calls: Annotated[float, Field(ge=1, le=1_000)]
    """Calls."""
    output_tokens: Annotated[float, Field(ge=1, le=1_000_000)]
    """Tokens written."""


class Economics(Block, frozen=True, cache_hash=True):
    """The economics of the choice (`decision:`)."""

    value_of_time_usd_per_hour: Annotated[float, Field(ge=0, le=10_000)] = 60.0
    """What an hour of waiting costs."""
    preference: Annotated[Preference, ELSEWHERE] = Preference.BALANCED
    hop_seconds: Annotated[float, Field(ge=0, le=600)] = 1.0
    """What leaving the session's tier costs, besides caches."""
    quick: TurnSize = TurnSize(2, 400)
    """Expected size of a quick edit."""
    long: TurnSize = TurnSize(26, 9_000)
    """Expected size of a long task."""
    base_rate: Annotated[float, Field(gt=0.001, lt=0.999)] = 0.5
    """Share of long tasks among turns."""
    usd_per_second: Annotated[float, ELSEWHERE] = 0.0
    prior: Annotated[float, ELSEWHERE] = 0.0

    def __post_init__(self) -> None:
        force_setattr(self, "usd_per_second", self.value_of_time_usd_per_hour / 3600.0)
        force_setattr(self, "prior", math.log(self.base_rate / (1 - self.base_rate)))


class RedoWeights(NamedTuple):
    """The cost of fast's wrong first answer: as much as fast saves in this many right ones of equal size."""

    time: float
    money: float


def weigh_redo(preference: Preference, rates: FailureRates) -> RedoWeights:
    """Weights with which the tier changes at the preference's score, or as near as these rates allow."""
    lowest, highest = _FLIPS_WITHIN[preference]
    flip = FLIP_SCORES[preference]
    share = ASSUMED_RATES.at(flip)
    share = min(max(share, rates.at(min(lowest, flip))), rates.at(max(highest, flip)))
    return RedoWeights(1 / share, 1 / rates.at(_NEVER_BY_MONEY))
