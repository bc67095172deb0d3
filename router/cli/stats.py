"""`tandem stats`."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from router.cli.assumptions import add_assumption_arguments, read_assumptions
from router.cli.common import print_json
from router.cli.past.looking import add_looking_arguments, nothing_found, open_past
from router.cli.tables import write_lines
from router.contract.past import CallSums, Sums
from router.contract.words import Tier
from router.decide.against import Side, TierSums, all_deep, all_fast, as_it_was
from router.decide.yardstick import Assumptions
from router.lab.lookback import MAX_ROWS
from router.screen.figures import UNKNOWN, count, day_and_clock, duration, money, plural

_TITLES = ("turns", "calls", "in", "out", "cost", "waited", "first")
_CALLER_TITLES = ("caller", *_TITLES, "fast", "deep", "errors")
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
    firsts: int = field(default=0)

    def add(self, sums: CallSums) -> None:
        for name in self.__slots__:
            if (more := getattr(sums, name)) is not None:
                setattr(self, name, (getattr(self, name) or 0) + more)

    def cells(self) -> list[str]:
        """The figures of a row, as `_TITLES` names them."""
        cost = money(self.cost_usd, is_part=bool(self.unpriced))
        first = duration(self.first_seconds / self.firsts) if self.firsts else UNKNOWN
        tokens = (count(self.input_tokens), count(self.output_tokens))
        return [f"{self.turns:,}", f"{self.calls:,}", *tokens, cost, duration(self.seconds), first]


@dataclass(slots=True)
class OfCaller:
    """One caller's calls, where their turns went, and what went wrong."""

    served: Group = field(default_factory=Group)
    fast_turns: int = 0
    deep_turns: int = 0
    failed: int = 0
    refused: int = 0

    def add(self, sums: CallSums) -> None:
        self.failed += sums.failed
        self.refused += sums.refused
        if sums.tier is not None:
            self.served.add(sums)
            self.fast_turns += sums.turns if sums.tier == Tier.FAST else 0
            self.deep_turns += sums.turns if sums.tier == Tier.DEEP else 0

    def cells(self) -> list[str]:
        """The figures of a row, as `_CALLER_TITLES` names them."""
        turns = self.fast_turns + self.deep_turns
        shares = (f"{100 * part / turns:.0f} %" if turns else UNKNOWN for part in (self.fast_turns, self.deep_turns))
        return [*self.served.cells(), *shares, f"{self.failed + self.refused:,}"]

    def as_json(self) -> dict[str, object]:
        own = {name: getattr(self, name) for name in ("fast_turns", "deep_turns", "failed", "refused")}
        return {**asdict(self.served), **own}


@dataclass(slots=True)
class Stats:
    """Everything that the command prints."""

    by_day: dict[str, Group]
    by_client: dict[str, Group]
    by_tier: dict[str, Group]
    by_caller: dict[str, OfCaller]
    total: Group
    was: Side
    deep: Side
    fast: Side
    assumed: Assumptions
    compared: int
    """Turns whose decision expected something of both tiers."""
    regrets: dict[str, int]
    failed: int
    refused: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_looking_arguments(parser)
    parser.add_argument(
        "--by",
        choices=("day", "client", "tier", "caller"),
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
        rows = _rows(getattr(stats, f"by_{arguments.by}"))
        titles = _CALLER_TITLES if arguments.by == "caller" else (arguments.by, *_TITLES)
        print("\n".join(write_lines(titles, rows, is_markdown=arguments.markdown)))
    else:
        print("\n".join(_readable(stats, regret, is_markdown=arguments.markdown)))
    return 0


def sum_up(sums: Sums, assumed: Assumptions) -> Stats:
    """The ledger's rows in groups, and compared."""
    served = [row for row in sums.calls if row.tier is not None]
    tiers = {tier: TierSums() for tier in Tier}
    for row in served:
        if row.tier in tuple(Tier):
            of_tier = tiers[Tier(row.tier)]
            of_tier.begun += row.turns
            of_tier.seconds += row.seconds
            of_tier.usd += row.cost_usd or 0.0
            of_tier.unpriced += row.unpriced
    for expected in sums.expected:
        if expected.tier in tuple(Tier):
            for name, figure in zip(expected._fields[1:], expected[1:], strict=True):
                setattr(tiers[Tier(expected.tier)], name, figure or 0)
    regrets = {
        "interrupted": sum(row.interrupted for row in sums.calls),
        "moved_up": sums.moved_up,
        "marked_wrong": sums.marked_wrong,
        "asked_for_a_tier": sums.asked_for,
    }
    return Stats(
        by_day=_group(served, lambda row: row.day),
        by_client=_group(served, lambda row: row.client or "unknown"),
        by_tier=_group(served, lambda row: row.tier or ""),
        by_caller=_by_caller(sums.calls),
        total=_group(served, lambda _: "total").get("total", Group()),
        was=as_it_was(tiers, assumed),
        deep=all_deep(tiers),
        fast=all_fast(tiers, assumed),
        assumed=assumed,
        compared=sum(expected.turns for expected in sums.expected),
        regrets=regrets,
        failed=sum(row.failed for row in sums.calls),
        refused=sum(row.refused for row in sums.calls),
    )


def _group(rows: Iterable[CallSums], key: Callable[[CallSums], str]) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for row in rows:
        groups.setdefault(key(row), Group()).add(row)
    return dict(sorted(groups.items()))


def _by_caller(rows: Iterable[CallSums]) -> dict[str, OfCaller]:
    """All calls, those that were refused or failed too."""
    callers: dict[str, OfCaller] = {}
    for row in rows:
        callers.setdefault(row.caller, OfCaller()).add(row)
    return dict(sorted(callers.items()))


def _rows(groups: Mapping[str, Group | OfCaller]) -> list[list[str]]:
    return [[name, *group.cells()] for name, group in groups.items()]


def _readable(stats: Stats, regret: Any, *, is_markdown: bool) -> list[str]:
    def table(titles: tuple[str, ...], rows: list[list[str]]) -> list[str]:
        return [*write_lines(titles, rows, is_markdown=is_markdown), ""]

    if is_markdown:
        lines = []
        for title, groups in (("day", stats.by_day), ("client", stats.by_client), ("tier", stats.by_tier)):
            lines += table((title, *_TITLES), _rows(groups))
    else:
        rows = []
        for groups in (stats.by_day, stats.by_client, stats.by_tier):
            rows += [*_rows(groups), [""] * (len(_TITLES) + 1)]
        lines = table(("", *_TITLES), [*rows, ["total", *stats.total.cells()]])
    total, turns = stats.total, stats.total.turns
    was = _compare("as it was", stats.was, turns)
    rows = [
        [was[0], money(total.cost_usd, is_part=bool(total.unpriced)), *was[2:]],
        _compare("all on deep, about", stats.deep, turns),
        _compare("all on fast, about", stats.fast, turns),
    ]
    titles = ("", "cost", "waited", "cost to done", "time to done", "wrong in 100")
    lines += table(titles, rows) if stats.compared else []
    lines += [*write_lines(_REGRET_TITLES, regret_rows(regret), is_markdown=is_markdown, left=_REGRET_TITLES[-1:]), ""]
    signs = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in stats.regrets.items())
    lines += [f"signs of regret: {signs}", f"{plural(stats.failed, 'call')} failed, {stats.refused} refused"]
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


def _side_json(side: Side) -> dict[str, object]:
    return {**side._asdict(), "done_seconds": side.done_seconds, "done_usd": side.done_usd}


def _as_json(stats: Stats) -> dict[str, object]:
    def groups(of: dict[str, Group]) -> dict[str, object]:
        return {name: asdict(group) for name, group in of.items()}

    return {
        "total": asdict(stats.total),
        "by_tier": groups(stats.by_tier),
        "by_client": groups(stats.by_client),
        "by_day": groups(stats.by_day),
        "by_caller": {name: caller.as_json() for name, caller in stats.by_caller.items()},
        "estimates": {
            "compared_turns": stats.compared,
            "assumed": stats.assumed.as_json(),
            "as_it_was": _side_json(stats.was),
            "all_deep": _side_json(stats.deep),
            "all_fast": _side_json(stats.fast),
        },
        "regrets": stats.regrets,
        "failed": stats.failed,
        "refused": stats.refused,
    }
