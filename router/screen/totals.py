"""Totals since the start, printed when `serve` stops."""

from router.contract.entry import Entry
from router.contract.words import Tier
from router.decide.against import TierSums, all_deep, as_it_was
from router.decide.yardstick import Assumptions
from router.screen.figures import duration, money, plural
from router.screen.turns import BEGINS, Turn

_LEAST_SECONDS = 1.0
"""A smaller difference in time is not mentioned."""


class Totals:
    """Counts turns and sums what they took."""

    def __init__(self) -> None:
        self.turns = self.moved_up = self.failed = self.refused = 0
        self.tiers = dict.fromkeys(Tier, 0)
        self.sums = {tier: TierSums() for tier in Tier}

    def count_begin(self, turn: Turn, *, had_moved_up: bool) -> None:
        """A call of a turn has begun."""
        if turn.is_persons and turn.calls == 1 and turn.tier is not None:
            self.turns += 1
            self.tiers[Tier(turn.tier)] += 1
        self.moved_up += turn.has_moved_up and not had_moved_up

    def count_end(self, turn: Turn, entry: Entry, *, had_failed: bool) -> None:
        line = entry.line
        if line.tier is None:
            self.refused += turn.calls == 0 and bool(turn.trouble)
            return
        self.failed += turn.has_failed - had_failed
        sums = self.sums[Tier(line.tier)]
        sums.measure(line.duration_ms / 1000, line.cost_usd)
        if line.turn_kind in BEGINS:
            sums.expect(entry.decision, line.score, has_cost=line.cost_usd is not None)

    def sentence(self) -> str:
        """All of it in one line."""
        refused = f", {self.refused} refused" if self.refused else ""
        if not self.turns:
            return f"no turns{refused}"
        tiers = " ".join(f"{count} {tier}" for tier, count in self.tiers.items() if count)
        seconds = sum(sums.seconds for sums in self.sums.values())
        usd = sum(sums.usd for sums in self.sums.values())
        unpriced = sum(sums.unpriced for sums in self.sums.values())
        took = money(usd, is_part=bool(unpriced)) if usd or not unpriced else duration(seconds)
        against = self._say_against()
        against = f" (all on deep: about {against})" if against else ""
        return (
            f"{plural(self.turns, 'turn')}, {tiers}, {took}{against}; {self.moved_up} moved up, {self.failed} failed{refused}"
        )

    def _say_against(self) -> str:
        deep = all_deep(self.sums)
        longer = deep.done_seconds - as_it_was(self.sums, Assumptions()).done_seconds
        parts = [] if deep.usd is None else [money(deep.usd)]
        if abs(longer) >= _LEAST_SECONDS:
            parts.append(f"{duration(abs(longer))} {'longer' if longer > 0 else 'shorter'} to done")
        return ", ".join(parts)
