"""`tandem stats`."""

import argparse
from typing import Any

from router.cli.assumptions import add_assumption_arguments, read_assumptions
from router.cli.common import print_json
from router.cli.past.looking import add_looking_arguments, nothing_found, open_past
from router.cli.tables import write_lines
from router.decide.yardstick import Assumptions
from router.past.regret import MAX_ROWS
from router.past.sums import sum_up
from router.screen.figures import UNKNOWN, count, day_and_clock, duration, money, plural

_TITLES = ("turns", "calls", "in", "out", "cost", "waited", "first")
_SHOWN, _CALLER = ("day", "client", "tier"), "caller"
"""Tables that are always shown, and the one shown on its own."""
_SIDES = {"as_it_was": "as it was", "all_deep": "all on deep, about", "all_fast": "all on fast, about"}
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_looking_arguments(parser)
    parser.add_argument(
        "--by",
        choices=(*_SHOWN, _CALLER),
        help="print only this table; callers are told apart by their keys (`keys:`, or `api_key: caller`)",
    )
    add_assumption_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the sums, the conclusion last."""
    sums, regret = open_past(arguments).read_sums(arguments.since)
    if not sums.calls:
        raise nothing_found(arguments)
    stats: Any = {**sum_up(sums, read_assumptions(arguments)), "regret": regret}
    if arguments.json:
        print_json(stats)
    elif arguments.by is not None:
        titles = (arguments.by, *_TITLES, *(("fast", "deep", "errors") if arguments.by == _CALLER else ()))
        print("\n".join(write_lines(titles, _rows(stats, arguments.by), is_markdown=arguments.markdown)))
    else:
        print("\n".join(_readable(stats, read_assumptions(arguments), is_markdown=arguments.markdown)))
    return 0


def _rows(stats: Any, table: str) -> list[list[str]]:
    return [[name, *_cells(group)] for name, group in stats[f"by_{table}"].items()]


def _cells(group: Any) -> list[str]:
    first = duration(group["first_seconds"] / group["firsts"]) if group["firsts"] else UNKNOWN
    cells = [f"{group['turns']:,}", f"{group['calls']:,}", count(group["input_tokens"]), count(group["output_tokens"])]
    cells += [money(group["cost_usd"], is_part=bool(group["unpriced"])), duration(group["seconds"]), first]
    if "fast_turns" not in group:
        return cells
    parts = group["fast_turns"], group["deep_turns"]
    shares = (f"{100 * part / sum(parts):.0f} %" if sum(parts) else UNKNOWN for part in parts)
    return [*cells, *shares, f"{group['failed'] + group['refused']:,}"]


def _readable(stats: Any, assumed: Assumptions, *, is_markdown: bool) -> list[str]:
    def table(titles: tuple[str, ...], rows: list[list[str]]) -> list[str]:
        return [*write_lines(titles, rows, is_markdown=is_markdown), ""]

    total, estimates, regret = stats["total"], stats["estimates"], stats["regret"]
    if is_markdown:
        lines = []
        for name in _SHOWN:
            lines += table((name, *_TITLES), _rows(stats, name))
    else:
        rows = []
        for name in _SHOWN:
            rows += [*_rows(stats, name), [""] * (len(_TITLES) + 1)]
        lines = table(("", *_TITLES), [*rows, ["total", *_cells(total)]])
    rows = [_compare(words, estimates[name], total["turns"]) for name, words in _SIDES.items()]
    rows[0][1] = money(total["cost_usd"], is_part=bool(total["unpriced"]))
    titles = ("", "cost", "waited", "cost to done", "time to done", "wrong in 100")
    lines += table(titles, rows) if estimates["compared_turns"] else []
    lines += [*write_lines(_REGRET_TITLES, regret_rows(regret), is_markdown=is_markdown, left=_REGRET_TITLES[-1:]), ""]
    signs = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in stats["regrets"].items())
    lines += [f"signs of regret: {signs}", f"{plural(stats['failed'], 'call')} failed, {stats['refused']} refused"]
    notes = [f"{_NOTE}{assumed.sentence().capitalize()}."] if estimates["compared_turns"] else []
    if not regret["complete"]:
        notes.append(f"Regret is that of the newest {MAX_ROWS:,} rows, since {day_and_clock(regret['from'])}.")
    return [*lines, *(["", *notes] if notes else [])]


def regret_rows(regret: Any) -> list[list[str]]:
    """One row per figure, by `_REGRET_TITLES`."""
    figures = [(words, regret["figures"][name]) for name, words in _REGRET_WORDS.items() if name in regret["figures"]]
    return [[words, _write_figure(figure), f"{figure['count']:,}", figure["sure"]] for words, figure in figures]


def _write_figure(figure: Any) -> str:
    unit, value = figure["unit"], figure["value"]
    if unit == "usd" and not figure["count"]:
        return UNKNOWN
    size = abs(value)
    written = duration(size) if unit == "seconds" else money(size) if unit == "usd" else count(size)
    return f"-{written}" if value < 0 else written


def _compare(name: str, side: Any, turns: int) -> list[str]:
    """One way of choosing: its cost and time, without and with redos."""
    wrong = f"{100 * side['wrong'] / turns:.1f}" if turns else UNKNOWN
    costs = money(side["usd"]), duration(side["seconds"]), money(side["done_usd"]), duration(side["done_seconds"])
    return [name, *costs, wrong]
