"""`tandem stats`."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from router.cli.assumptions import add_assumption_arguments, read_assumptions
from router.cli.common import print_json
from router.cli.past.looking import add_looking_arguments, nothing_found, open_past
from router.cli.tables import write_lines
from router.contract.past import CallSums, ExpectedSums, Sums
from router.contract.request import JsonObject
from router.contract.words import Tier
from router.decide.against import Side, TierSums, all_deep, all_fast, as_it_was
from router.decide.yardstick import Assumptions
from router.past.lookback import MAX_ROWS
from router.screen.figures import UNKNOWN, count, day_and_clock, duration, money, plural

_TITLES = ("turns", "calls", "in", "out", "cost", "waited", "first")
_SHOWN, _CALLER = ("day", "client", "tier"), "caller"
"""The tables that are always shown, and the one that is shown on its own."""
_KEYS: dict[str, Callable[[CallSums], str]] = {
    "day": lambda row: row.day,
    "client": lambda row: row.client or "unknown",
    "tier": lambda row: row.tier or "",
    _CALLER: lambda row: row.caller,
}
_SUMMED = tuple("turns calls input_tokens output_tokens cost_usd unpriced seconds first_seconds firsts".split())
_OF_CALLERS = ("fast_turns", "deep_turns", "failed", "refused")
_SIDES = ("as it was", "all on deep, about", "all on fast, about")
_NOTE = (
    "All on deep and all on fast are estimates: measured values times the expected ratio between the tiers."
    "\nTo done: including the redos expected on fast. "
)
_REGRET_TITLES = ("regret", "", "count", "how sure")
_REGRET_WORDS = {
    "saved_seconds": "time that fast saved",
    "lost_seconds": "time lost on fast",
    "deep_needlessly_seconds": "time lost on deep",
    "saved_usd": "money that fast saved",
    "lost_usd": "money lost on fast",
    "hops_usd": "money paid for hops",
    "after_interrupt_tokens": "tokens after an interrupt, at most",
}

EXAMPLES = (
    "stats",
    "stats --since 2026-11-01 --markdown",
    "stats --by caller",
    "stats --url https://tandem.example:4000 --key-env TANDEM_KEY",
)


@dataclass(slots=True)
class Group:
    """Some of the calls, summed up."""

    turns: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    unpriced: int = 0
    """Calls whose cost is not known."""
    seconds: float = 0.0
    first_seconds: float = 0.0
    firsts: int = 0
    fast_turns: int = 0
    deep_turns: int = 0
    failed: int = 0
    refused: int = 0

    def add(self, sums: CallSums) -> None:
        self.failed += sums.failed
        self.refused += sums.refused
        if sums.tier is None:
            return
        for name in _SUMMED:
            if (more := getattr(sums, name)) is not None:
                setattr(self, name, (getattr(self, name) or 0) + more)
        self.fast_turns += sums.turns if sums.tier == Tier.FAST else 0
        self.deep_turns += sums.turns if sums.tier == Tier.DEEP else 0

    def cells(self, table: str) -> list[str]:
        """The figures of a row, as the titles of its table name them."""
        first = duration(self.first_seconds / self.firsts) if self.firsts else UNKNOWN
        cells = [f"{self.turns:,}", f"{self.calls:,}", count(self.input_tokens), count(self.output_tokens)]
        cells += [money(self.cost_usd, is_part=bool(self.unpriced)), duration(self.seconds), first]
        if table != _CALLER:
            return cells
        turns = self.fast_turns + self.deep_turns
        shares = (f"{100 * part / turns:.0f} %" if turns else UNKNOWN for part in (self.fast_turns, self.deep_turns))
        return [*cells, *shares, f"{self.failed + self.refused:,}"]

    def as_json(self, table: str) -> JsonObject:
        names = (*_SUMMED, *_OF_CALLERS) if table == _CALLER else _SUMMED
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True)
class Stats:
    """Everything that the command prints."""

    tables: dict[str, dict[str, Group]]
    total: Group
    sides: dict[str, Side]
    """Every turn where it went, and all of them on one tier."""
    assumed: Assumptions
    compared: int
    """Turns whose decision expected something of both tiers."""
    regrets: dict[str, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_looking_arguments(parser)
    parser.add_argument(
        "--by",
        choices=tuple(_KEYS),
        help="print only this table; callers are told apart by their keys (`keys:`, or `api_key: caller`)",
    )
    add_assumption_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the sums, the conclusion at the end."""
    sums, regret = open_past(arguments).read_sums(arguments.since)
    if not sums.calls:
        raise nothing_found(arguments)
    stats = sum_up(sums, read_assumptions(arguments))
    if arguments.json:
        print_json({**_as_json(stats), "regret": regret})
    elif arguments.by is not None:
        titles = (arguments.by, *_TITLES, *(("fast", "deep", "errors") if arguments.by == _CALLER else ()))
        print("\n".join(write_lines(titles, _rows(stats, arguments.by), is_markdown=arguments.markdown)))
    else:
        print("\n".join(_readable(stats, regret, is_markdown=arguments.markdown)))
    return 0


def sum_up(sums: Sums, assumed: Assumptions) -> Stats:
    """The ledger's rows in groups, and compared."""
    tables: dict[str, dict[str, Group]] = {}
    total = Group()
    for name, key in _KEYS.items():
        groups: dict[str, Group] = {}
        for row in sums.calls:
            if row.tier is not None or name == _CALLER:  # callers also see what was refused
                groups.setdefault(key(row), Group()).add(row)
        tables[name] = dict(sorted(groups.items()))
    for row in sums.calls:
        total.add(row)
    expected = {row.tier: row for row in sums.expected}
    tiers = {tier: _against(tables["tier"].get(tier, Group()), expected.get(tier)) for tier in Tier}
    return Stats(
        tables,
        total,
        {"as_it_was": as_it_was(tiers, assumed), "all_deep": all_deep(tiers), "all_fast": all_fast(tiers, assumed)},
        assumed,
        compared=sum(row.turns for row in sums.expected),
        regrets={
            "interrupted": sum(row.interrupted for row in sums.calls),
            "moved_up": sums.moved_up,
            "marked_wrong": sums.marked_wrong,
            "asked_for_a_tier": sums.asked_for,
        },
    )


def _against(measured: Group, expected: ExpectedSums | None) -> TierSums:
    figures: dict[str, Any] = expected._asdict() if expected is not None else {}
    figures.pop("tier", None)
    cost_usd = measured.cost_usd or 0.0
    known = {name: figure or 0 for name, figure in figures.items()}
    return TierSums(measured.seconds, cost_usd, measured.unpriced, measured.turns, **known)


def _rows(stats: Stats, table: str) -> list[list[str]]:
    return [[name, *group.cells(table)] for name, group in stats.tables[table].items()]


def _readable(stats: Stats, regret: Any, *, is_markdown: bool) -> list[str]:
    def table(titles: tuple[str, ...], rows: list[list[str]]) -> list[str]:
        return [*write_lines(titles, rows, is_markdown=is_markdown), ""]

    if is_markdown:
        lines = []
        for name in _SHOWN:
            lines += table((name, *_TITLES), _rows(stats, name))
    else:
        rows = []
        for name in _SHOWN:
            rows += [*_rows(stats, name), [""] * (len(_TITLES) + 1)]
        lines = table(("", *_TITLES), [*rows, ["total", *stats.total.cells("")]])
    total, turns = stats.total, stats.total.turns
    rows = [_compare(name, side, turns) for name, side in zip(_SIDES, stats.sides.values(), strict=True)]
    rows[0][1] = money(total.cost_usd, is_part=bool(total.unpriced))
    titles = ("", "cost", "waited", "cost to done", "time to done", "wrong in 100")
    lines += table(titles, rows) if stats.compared else []
    lines += [*write_lines(_REGRET_TITLES, regret_rows(regret), is_markdown=is_markdown, left=_REGRET_TITLES[-1:]), ""]
    signs = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in stats.regrets.items())
    lines += [f"signs of regret: {signs}", f"{plural(total.failed, 'call')} failed, {total.refused} refused"]
    notes = [f"{_NOTE}{stats.assumed.sentence().capitalize()}."] if stats.compared else []
    if not regret["complete"]:
        notes.append(f"Regret is that of the newest {MAX_ROWS:,} rows, since {day_and_clock(regret['from'])}.")
    return [*lines, *(["", *notes] if notes else [])]


def regret_rows(regret: Any) -> list[list[str]]:
    """A row for each figure, as `_REGRET_TITLES` names them."""
    figures = [(words, regret["figures"][name]) for name, words in _REGRET_WORDS.items() if name in regret["figures"]]
    return [[words, _write_figure(figure), f"{figure['count']:,}", figure["sure"]] for words, figure in figures]


def _write_figure(figure: Any) -> str:
    unit, value = figure["unit"], figure["value"]
    if unit == "usd" and not figure["count"]:
        return UNKNOWN
    size = abs(value)
    written = duration(size) if unit == "seconds" else money(size) if unit == "usd" else count(size)
    return f"-{written}" if value < 0 else written


def _compare(name: str, side: Side, turns: int) -> list[str]:
    """One way of choosing: what it cost and took, and the same until everything is done."""
    wrong = f"{100 * side.wrong / turns:.1f}" if turns else UNKNOWN
    return [name, money(side.usd), duration(side.seconds), money(side.done_usd), duration(side.done_seconds), wrong]


def _as_json(stats: Stats) -> JsonObject:
    sides: JsonObject = {
        name: {**side._asdict(), "done_seconds": side.done_seconds, "done_usd": side.done_usd}
        for name, side in stats.sides.items()
    }
    return {
        "total": stats.total.as_json(""),
        **{
            f"by_{table}": {name: group.as_json(table) for name, group in stats.tables[table].items()}
            for table in ("tier", "client", "day", _CALLER)
        },
        "estimates": {"compared_turns": stats.compared, "assumed": stats.assumed.as_json(), **sides},
        "regrets": {**stats.regrets},
        "failed": stats.total.failed,
        "refused": stats.total.refused,
    }
