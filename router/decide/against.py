"""What the same turns would have taken on deep alone, and on fast alone: estimates, measured with the yardstick.

Every decision keeps what its turn was expected to take on each tier. What was measured on one tier, times the ratio of the two
expectations over the turns that went there, is what the other would have taken. A turn on fast, where it was or would have
been, also counts the chance that its first answer is wrong: what that costs the person, and the turn again on deep.
"""

from dataclasses import dataclass
from typing import NamedTuple

from router.contract.decision import Projection
from router.contract.words import Tier
from router.decide.yardstick import Assumptions


@dataclass(slots=True)
class TierSums:
    """One tier: what was measured there, and what its turns were expected to take here and there."""

    seconds: float = 0.0
    usd: float = 0.0
    unpriced: int = 0
    """Calls whose cost is not known."""
    begun: int = 0
    """Turns."""
    turns: int = 0
    """Turns with an expectation for both tiers, and those of them with a price for both."""
    priced: int = 0
    fast_seconds: float = 0.0
    deep_seconds: float = 0.0
    scores: float = 0.0
    """The sum of their scores; below it, of score times what deep would take. The chance of a redo is linear in the score."""
    scored_deep_seconds: float = 0.0
    fast_usd: float = 0.0
    deep_usd: float = 0.0
    scored_deep_usd: float = 0.0

    def measure(self, seconds: float, usd: float | None) -> None:
        """A call took this."""
        self.seconds += seconds
        self.usd += usd or 0.0
        self.unpriced += usd is None

    def begin(self, fast: Projection | None, deep: Projection | None, score: float | None, *, has_cost: bool) -> None:
        """A turn began, of which this was expected. The ledger's sums are made alike, in SQL."""
        self.begun += 1
        if fast is None or deep is None:
            return
        p = score or 0.0
        deep_seconds, deep_usd = deep.seconds + deep.seconds_slope * p, deep.usd + deep.usd_slope * p
        self.turns += 1
        self.scores += p
        self.fast_seconds += fast.seconds + fast.seconds_slope * p
        self.deep_seconds += deep_seconds
        self.scored_deep_seconds += p * deep_seconds
        if fast.has_price and deep.has_price and has_cost:
            self.priced += 1
            self.fast_usd += fast.usd + fast.usd_slope * p
            self.deep_usd += deep_usd
            self.scored_deep_usd += p * deep_usd


class Side(NamedTuple):
    """All turns in one way. Money is None where prices are missing. `seconds` and `usd` are without redos."""

    seconds: float
    usd: float | None
    redo_seconds: float = 0.0
    redo_usd: float | None = 0.0
    wrong: float = 0.0
    """How many first answers were wrong, as assumed."""

    @property
    def done_seconds(self) -> float:
        """Until everything is done."""
        return self.seconds + self.redo_seconds

    @property
    def done_usd(self) -> float | None:
        """The same for the money."""
        return _add(self.usd, self.redo_usd)


def as_it_was(sums: dict[Tier, TierSums], assumed: Assumptions) -> Side:
    """Every turn where it went: what was measured, and the redos of what fast served."""
    fast = sums[Tier.FAST]
    return Side(
        fast.seconds + sums[Tier.DEEP].seconds,
        _add(_known(fast), _known(sums[Tier.DEEP])),
        *_redo(fast, fast.fast_seconds, fast.fast_usd, assumed),
    )


def all_deep(sums: dict[Tier, TierSums]) -> Side:
    fast, deep = sums[Tier.FAST], sums[Tier.DEEP]
    seconds = deep.seconds + fast.seconds * _ratio(fast.deep_seconds, fast.fast_seconds)
    return Side(seconds, _add(_known(deep), _scale(fast, fast.fast_usd, fast.deep_usd, fast.fast_seconds)))


def all_fast(sums: dict[Tier, TierSums], assumed: Assumptions) -> Side:
    fast, deep = sums[Tier.FAST], sums[Tier.DEEP]
    seconds = fast.seconds + deep.seconds * _ratio(deep.fast_seconds, deep.deep_seconds)
    usd = _add(_known(fast), _scale(deep, deep.deep_usd, deep.fast_usd, deep.deep_seconds))
    own = _redo(fast, fast.fast_seconds, fast.fast_usd, assumed)
    others = _redo(deep, deep.deep_seconds, deep.deep_usd, assumed)
    return Side(seconds, usd, own[0] + others[0], _add(own[1], others[1]), own[2] + others[2])


def _redo(sums: TierSums, own_seconds: float, own_usd: float, assumed: Assumptions) -> tuple[float, float | None, float]:
    """What redos of these turns add if fast serves them, in seconds and USD, and how many there are."""
    if not sums.turns:
        return 0.0, None if sums.unpriced else 0.0, 0.0
    quick, more = assumed.fails_quick, assumed.fails_long - assumed.fails_quick
    wrong = (quick + more * sums.scores / sums.turns) * sums.begun
    again = (quick * sums.deep_seconds + more * sums.scored_deep_seconds) * _ratio(sums.seconds, own_seconds)
    usd = None
    if not sums.unpriced and sums.priced == sums.turns:
        usd = (quick * sums.deep_usd + more * sums.scored_deep_usd) * _share(sums, own_usd, own_seconds)
    return wrong * assumed.failure_seconds + again, usd, wrong


def _ratio(other: float, own: float) -> float:
    """Without any expectation, a tier counts as it was."""
    return other / own if own > 0 else 1.0


def _known(sums: TierSums) -> float | None:
    return None if sums.unpriced else sums.usd


def _share(sums: TierSums, own_usd: float, own_seconds: float) -> float:
    """How much of the expected work was done; for a model without a price, measured by time."""
    if own_usd > 0:
        return sums.usd / own_usd
    return sums.seconds / own_seconds if own_seconds > 0 else 0.0


def _scale(sums: TierSums, own_usd: float, other_usd: float, own_seconds: float) -> float | None:
    """What was paid on one tier, as the other would have cost. Not known where a price is missing."""
    if not sums.seconds:
        return 0.0
    if sums.unpriced or sums.priced < sums.turns:
        return None
    return _share(sums, own_usd, own_seconds) * other_usd if sums.turns else sums.usd


def _add(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
