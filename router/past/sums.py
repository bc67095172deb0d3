"""Sums of a ledger, and what its turns would have taken on deep or fast alone, by the yardstick.

Decisions keep what a turn was expected to take on each tier. The other tier's value is the measured one times the ratio of both
expectations. A turn on fast, real or hypothetical, adds the chance of a wrong first answer: its cost to the person, and the
turn again on deep.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from router.contract.decision import Weighing
from router.contract.entry import Line
from router.contract.past import CallSums, Sums
from router.contract.request import JsonObject
from router.contract.words import Tier
from router.decide.yardstick import Assumptions, Done
from router.past.rows import Kept
from router.past.turns import lacks_cost


@dataclass(slots=True)
class TierSums:
    """A tier's measured totals, and its turns' expectations on both tiers."""

    seconds: float = 0.0
    usd: float = 0.0
    unpriced: int = 0
    begun: int = 0
    turns: int = 0
    """Turns with an expectation for both tiers, and those with both prices."""
    priced: int = 0
    fast_seconds: float = 0.0
    deep_seconds: float = 0.0
    scores: float = 0.0
    """Sum of scores; then of score times deep's expectation. The chance of a redo is linear in the score."""
    scored_deep_seconds: float = 0.0
    fast_usd: float = 0.0
    deep_usd: float = 0.0
    scored_deep_usd: float = 0.0

    def measure(self, line: Line) -> None:
        """Add a call."""
        self.seconds += line.duration_ms / 1000
        self.usd += line.cost_usd or 0.0
        self.unpriced += lacks_cost(line)

    def begin(self, line: Line, expected: Weighing | Kept | None) -> None:
        """Add a turn with its expectation. SQL sums the ledger in the same way."""
        self.begun += 1
        fast, deep = (expected.fast, expected.deep) if expected is not None else (None, None)
        if fast is None or deep is None:
            return
        p = line.score or 0.0
        deep_seconds, deep_usd = deep.seconds + deep.seconds_slope * p, deep.usd + deep.usd_slope * p
        self.turns += 1
        self.scores += p
        self.fast_seconds += fast.seconds + fast.seconds_slope * p
        self.deep_seconds += deep_seconds
        self.scored_deep_seconds += p * deep_seconds
        if fast.has_price and deep.has_price and line.cost_usd is not None:
            self.priced += 1
            self.fast_usd += fast.usd + fast.usd_slope * p
            self.deep_usd += deep_usd
            self.scored_deep_usd += p * deep_usd


@dataclass(slots=True)
class Side:
    """All turns in one way, redos apart. Money is None if prices are missing."""

    seconds: float = 0.0
    usd: float | None = 0.0
    redo_seconds: float = 0.0
    redo_usd: float | None = 0.0
    wrong: float = 0.0
    """Assumed wrong first answers."""

    @property
    def done_seconds(self) -> float:
        """Including redos."""
        return self.seconds + self.redo_seconds

    @property
    def done_usd(self) -> float | None:
        return _add(self.usd, self.redo_usd)

    def add(self, done: Done) -> None:
        """Add one turn; `usd` then includes its redo."""
        self.seconds += done.seconds - done.redo_seconds
        self.redo_seconds += done.redo_seconds
        self.usd = _add(self.usd, done.usd)
        self.wrong += done.wrong


def as_it_was(sums: dict[Tier, TierSums], assumed: Assumptions) -> Side:
    """Every turn as served: measured, plus redos of those on fast."""
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
    """Seconds and USD that redos add if fast serves these turns, and their number."""
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
    """Without an expectation, a tier counts as it was."""
    return other / own if own > 0 else 1.0


def _known(sums: TierSums) -> float | None:
    return None if sums.unpriced else sums.usd


def _share(sums: TierSums, own_usd: float, own_seconds: float) -> float:
    """Share of the expected work that was done; by time for a model without a price."""
    if own_usd > 0:
        return sums.usd / own_usd
    return sums.seconds / own_seconds if own_seconds > 0 else 0.0


def _scale(sums: TierSums, own_usd: float, other_usd: float, own_seconds: float) -> float | None:
    """The money of one tier, scaled to the other; None if a price is missing."""
    if not sums.seconds:
        return 0.0
    if sums.unpriced or sums.priced < sums.turns:
        return None
    return _share(sums, own_usd, own_seconds) * other_usd if sums.turns else sums.usd


def _add(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


_KEYS: dict[str, Callable[[CallSums], str]] = {
    "tier": lambda row: row.tier or "",
    "client": lambda row: row.client or "unknown",
    "day": lambda row: row.day,
    "caller": lambda row: row.caller,
}
_SUMMED = ("turns", "calls", "input_tokens", "output_tokens", "unpriced", "seconds", "first_seconds", "firsts")


def sum_up(sums: Sums, assumed: Assumptions) -> JsonObject:
    """Sums by group, and compared: `tandem stats --json`."""
    tables: dict[str, dict[str, JsonObject]] = {}
    for name, key in _KEYS.items():
        groups: dict[str, list[CallSums]] = {}
        for row in sums.calls:
            if row.tier is not None or name == "caller":  # callers also see refusals
                groups.setdefault(key(row), []).append(row)
        tables[f"by_{name}"] = {group: _add_up(rows, by_tier=name == "caller") for group, rows in sorted(groups.items())}
    tiers = {tier: _read_tier(sums, tier) for tier in Tier}
    sides = {"as_it_was": as_it_was(tiers, assumed), "all_deep": all_deep(tiers), "all_fast": all_fast(tiers, assumed)}
    shown: JsonObject = {
        name: {**asdict(side), "done_seconds": side.done_seconds, "done_usd": side.done_usd} for name, side in sides.items()
    }
    compared = sum(row.turns for row in sums.expected)
    return {
        "total": _add_up(sums.calls),
        **{name: {**groups} for name, groups in tables.items()},
        "estimates": {"compared_turns": compared, "assumed": assumed.as_json(), **shown},
        "regrets": {
            "interrupted": sum(row.interrupted for row in sums.calls),
            "moved_up": sums.moved_up,
            "marked_wrong": sums.marked_wrong,
            "asked_for_a_tier": sums.asked_for,
        },
        "failed": sum(row.failed for row in sums.calls),
        "refused": sum(row.refused for row in sums.calls),
    }


def _add_up(rows: Sequence[CallSums], *, by_tier: bool = False) -> JsonObject:
    served = [row for row in rows if row.tier is not None]
    costs = [row.cost_usd for row in served if row.cost_usd is not None]
    group: JsonObject = {name: sum(getattr(row, name) or 0 for row in served) for name in _SUMMED}
    group["cost_usd"] = sum(costs) if costs else None
    if by_tier:
        group |= {f"{tier}_turns": sum(row.turns for row in served if row.tier == tier) for tier in Tier}
        group |= {"failed": sum(row.failed for row in rows), "refused": sum(row.refused for row in rows)}
    return group


def _read_tier(sums: Sums, tier: Tier) -> TierSums:
    rows = [row for row in sums.calls if row.tier == tier]
    seconds, usd = sum(row.seconds for row in rows), sum(row.cost_usd or 0.0 for row in rows)
    found = TierSums(seconds, usd, sum(row.unpriced for row in rows), sum(row.turns for row in rows))
    for row in sums.expected:
        if row.tier == tier:
            for name in row._fields[1:]:
                setattr(found, name, getattr(row, name) or 0)
    return found
