"""Sums over replayed turns, in total and by kind, client and size. They contain no text."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from router.contract.request import Json, JsonObject
from router.contract.words import Tier
from router.decide.yardstick import Assumptions, Done, Took, to_done
from router.past.cases import Case
from router.past.history import Size
from router.past.replay import CHANCES, Choice


@dataclass(slots=True)
class Choices:
    """Sums for one way of choosing, with expected redos. Money is None if a price is missing."""

    seconds: float = 0.0
    redo_seconds: float = 0.0
    usd: float | None = 0.0
    wrong: float = 0.0
    """Assumed wrong first answers."""
    fast: int = 0
    right: int = 0

    def count(self, tier: Tier, done: Mapping[Tier, Done], size: Size | None) -> None:
        """Count one turn. All sides are measured alike, for comparison."""
        self.fast += tier is Tier.FAST
        if done:
            own = done[tier]
            self.seconds += own.seconds
            self.redo_seconds += own.redo_seconds
            self.usd = None if self.usd is None or own.usd is None else self.usd + own.usd
            self.wrong += own.wrong
        self.right += size is (Size.QUICK if tier is Tier.FAST else Size.LONG)


@dataclass(slots=True)
class Row:
    """A group of turns, before and after, and all on one tier."""

    turns: int = 0
    judged: int = 0
    timed: int = 0
    """Turns with a known size, hence time on either tier."""
    to_fast: int = 0
    to_deep: int = 0
    before: Choices = field(default_factory=Choices)
    after: Choices = field(default_factory=Choices)
    all_deep: Choices = field(default_factory=Choices)
    all_fast: Choices = field(default_factory=Choices)

    def add(self, case: Case, before: Tier, after: Tier, done: Mapping[Tier, Done]) -> None:
        self.turns += 1
        self.judged += case.is_clear
        self.timed += bool(done)
        self.to_fast += before is Tier.DEEP and after is Tier.FAST
        self.to_deep += before is Tier.FAST and after is Tier.DEEP
        for side, tier in (
            (self.before, before),
            (self.after, after),
            (self.all_deep, Tier.DEEP),
            (self.all_fast, Tier.FAST),
        ):
            side.count(tier, done, case.size)

    def as_json(self) -> JsonObject:
        return {
            "turns": self.turns,
            "judged": self.judged,
            "timed": self.timed,
            "to_fast": self.to_fast,
            "to_deep": self.to_deep,
            "seconds_saved": round(self.before.seconds - self.after.seconds, 1),
            "before": _side_json(self.before, self),
            "after": _side_json(self.after, self),
            "all_deep": _side_json(self.all_deep, self),
            "all_fast": _side_json(self.all_fast, self),
        }


def _side_json(side: Choices, row: Row) -> JsonObject:
    return {
        "fast_share": round(side.fast / row.turns, 4) if row.turns else None,
        "seconds": round(side.seconds, 1),
        "redo_seconds": round(side.redo_seconds, 1),
        "usd": None if side.usd is None else round(side.usd, 6),
        "accuracy": round(side.right / row.judged, 4) if row.judged else None,
        "wrong_per_100": round(100 * side.wrong / row.timed, 2) if row.timed else None,
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
    """Results of a replay, comparing `before_name` with `after_name`."""

    before_name: str
    after_name: str
    assumed: Assumptions = field(default_factory=Assumptions)
    total: Row = field(default_factory=Row)
    by_kind: dict[str, Row] = field(default_factory=dict)
    by_client: dict[str, Row] = field(default_factory=dict)
    by_size: dict[str, Row] = field(default_factory=dict)
    regrets: dict[str, int] = field(default_factory=dict)
    unservable: int = 0
    without_text: int = 0
    """Ledger turns without text: only their estimate was repeated."""
    examples: list[Example] = field(default_factory=list)

    def add(self, case: Case, before: Tier, after: Choice, measured: Mapping[Tier, Took]) -> None:
        """`measured` is what it would take on each tier, if known."""
        self.without_text += case.arrival is None
        done: dict[Tier, Done] = {}
        if measured and case.size is not None:
            fast, deep, chance = measured[Tier.FAST], measured[Tier.DEEP], CHANCES[case.size]
            done = {tier: to_done(tier, fast, deep, chance, self.assumed) for tier in Tier}
        groups = ((self.by_kind, str(after.kind)), (self.by_client, case.client), (self.by_size, str(case.size or "unknown")))
        for row in (self.total, *(rows.setdefault(name, Row()) for rows, name in groups)):
            row.add(case, before, after.tier, done)
        for regret in case.regrets:
            self.regrets[str(regret)] = self.regrets.get(str(regret), 0) + 1

    def show(self, case: Case, before: Tier, after: Choice, most: int) -> None:
        """Keep a changed turn as an example, if it is among the largest changes."""
        if before is after.tier or not most or not case.words:
            return
        there, here = after.estimates.get(before), after.estimates.get(after.tier)
        saved = there.seconds - here.seconds if there and here else 0.0
        self.examples.append(Example(case.words, case.client, before, after.tier, after.score, case.size, after.because, saved))
        self.examples.sort(key=lambda example: -example.saved_seconds)
        del self.examples[most:]

    def as_json(self) -> JsonObject:
        """Without examples."""
        return {
            "before": self.before_name,
            "after": self.after_name,
            "assumed": self.assumed.as_json(),
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
