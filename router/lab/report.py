"""What would change: sums over replayed turns, whole and by kind, client and size. No text of anyone's is in them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from router.contract.decision import Estimate
from router.contract.request import Json, JsonObject
from router.contract.words import Tier
from router.lab.cases import Case
from router.lab.past import Size
from router.lab.replay import Choice

LONG_ON_FAST, QUICK_ON_DEEP = 3.0, 1.0
"""What a wrong choice costs: a long task that fast tries first, and a quick edit that waits for deep."""


def regret_of(tier: Tier, size: Size) -> float:
    """What a choice cost, now that it is known what the turn was. A turn in the middle is right on either tier."""
    if size is Size.LONG and tier is Tier.FAST:
        return LONG_ON_FAST
    return QUICK_ON_DEEP if size is Size.QUICK and tier is Tier.DEEP else 0.0


@dataclass(slots=True)
class Side:
    """One way of choosing, summed up."""

    fast: int = 0
    seconds: float = 0.0
    redo_seconds: float = 0.0
    right: int = 0
    regret: float = 0.0

    def add(self, tier: Tier, measured: Mapping[Tier, Estimate], size: Size | None) -> None:
        """Count one turn on a tier. Both sides are measured alike, or they could not be compared."""
        self.fast += tier is Tier.FAST
        if measured:
            self.seconds += measured[tier].seconds
            self.redo_seconds += measured[tier].redo_seconds
        if size is not None:
            cost = regret_of(tier, size)
            self.regret += cost
            self.right += cost == 0.0 and size is not Size.MIDDLE


@dataclass(slots=True)
class Row:
    """A group of turns, before and after."""

    turns: int = 0
    judged: int = 0
    """Turns that are known to have been quick or long."""
    timed: int = 0
    """Turns whose time on either tier is known, since it is known what they were."""
    to_fast: int = 0
    to_deep: int = 0
    before: Side = field(default_factory=Side)
    after: Side = field(default_factory=Side)

    def add(self, case: Case, before: Tier, after: Tier, measured: Mapping[Tier, Estimate]) -> None:
        """Count one turn."""
        self.turns += 1
        self.judged += case.size in (Size.QUICK, Size.LONG)
        self.timed += bool(measured)
        self.to_fast += before is Tier.DEEP and after is Tier.FAST
        self.to_deep += before is Tier.FAST and after is Tier.DEEP
        self.before.add(before, measured, case.size)
        self.after.add(after, measured, case.size)

    def as_json(self) -> JsonObject:
        """The row for a program."""
        return {
            "turns": self.turns,
            "judged": self.judged,
            "timed": self.timed,
            "to_fast": self.to_fast,
            "to_deep": self.to_deep,
            "seconds_saved": round(self.before.seconds - self.after.seconds, 1),
            "before": _side_json(self.before, self),
            "after": _side_json(self.after, self),
        }


def _side_json(side: Side, row: Row) -> JsonObject:
    return {
        "fast_share": round(side.fast / row.turns, 4) if row.turns else None,
        "seconds": round(side.seconds, 1),
        "redo_seconds": round(side.redo_seconds, 1),
        "accuracy": round(side.right / row.judged, 4) if row.judged else None,
        "regret_per_100": round(100 * side.regret / row.judged, 1) if row.judged else None,
    }


@dataclass(frozen=True, slots=True)
class Example:
    """A turn whose tier changed, with the person's words: for their own terminal only."""

    words: str
    client: str
    before: Tier
    after: Tier
    score: float
    size: Size | None
    because: str
    saved_seconds: float


@dataclass(slots=True)
class Report:
    """Everything that a replay found. `before_name` and `after_name` say which two ways of choosing are compared."""

    before_name: str
    after_name: str
    total: Row = field(default_factory=Row)
    by_kind: dict[str, Row] = field(default_factory=dict)
    by_client: dict[str, Row] = field(default_factory=dict)
    by_size: dict[str, Row] = field(default_factory=dict)
    regrets: dict[str, int] = field(default_factory=dict)
    unservable: int = 0
    without_text: int = 0
    """Turns of a ledger that was kept without text: only their estimate was made anew."""
    examples: list[Example] = field(default_factory=list)

    def add(self, case: Case, before: Tier, after: Choice, measured: Mapping[Tier, Estimate]) -> None:
        """Count one turn. `measured` is what it would have taken on each tier, where that is known."""
        self.without_text += case.arrival is None
        groups = ((self.by_kind, str(after.kind)), (self.by_client, case.client), (self.by_size, str(case.size or "unknown")))
        for row in (self.total, *(rows.setdefault(name, Row()) for rows, name in groups)):
            row.add(case, before, after.tier, measured)
        for regret in case.regrets:
            self.regrets[str(regret)] = self.regrets.get(str(regret), 0) + 1

    def show(self, case: Case, before: Tier, after: Choice, most: int) -> None:
        """Keep a changed turn as an example, if it is among those that change most."""
        if before is after.tier or not most or not case.words:
            return
        there, here = after.estimates.get(before), after.estimates.get(after.tier)
        saved = there.seconds - here.seconds if there and here else 0.0
        self.examples.append(Example(case.words, case.client, before, after.tier, after.score, case.size, after.because, saved))
        self.examples.sort(key=lambda example: -example.saved_seconds)
        del self.examples[most:]

    def as_json(self) -> JsonObject:
        """The report for a program, without examples."""
        return {
            "before": self.before_name,
            "after": self.after_name,
            "total": self.total.as_json(),
            "by_kind": _rows_json(self.by_kind.items()),
            "by_client": _rows_json(self.by_client.items()),
            "by_size": _rows_json(self.by_size.items()),
            "regrets": dict(sorted(self.regrets.items())),
            "unservable": self.unservable,
            "without_text": self.without_text,
        }


def _rows_json(rows: Iterable[tuple[str, Row]]) -> Json:
    return {name: row.as_json() for name, row in sorted(rows)}
