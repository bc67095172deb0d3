"""`tandem stats`."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from router.cli import Ended
from router.cli.common import load_in_use, print_json
from router.cli.figures import UNKNOWN, count, duration, money, plural
from router.cli.past.looking import add_looking_arguments, nothing_found, open_past
from router.cli.tables import write_lines
from router.contract.combine import LookWhen
from router.contract.past import CallSums, LookSums
from router.contract.request import JsonObject
from router.contract.words import Tier
from router.past.worth import Redone

_TITLES = ("turns", "calls", "in", "out", "cost", "waited", "first")
_KIND_TITLES = ("kind", "fast", "deep", "turns", "accepted", *(str(sign).replace("_", " ") for sign in Redone), "redone")
_MOST_DAYS = 60
_LOOK_TITLES = ("day", "looks", "fine", "objections", "acted on", "waved off", "no result", "seconds", "cost")
_DAY, _MONTH, _CALLER, _KIND, _LOOK = "day", "month", "caller", "kind", "look"
_SHOWN = ("client", "tier")
"""Tables that are always shown, after the days; the callers are shown on their own."""
_SIDES = {"spent": "spent", "all_deep": "all on deep, about", "saved": "saved, about", "redone": "redone, {}"}
_NOTE = (
    "Spent is measured. All on deep is an estimate: what fast served, times what the decisions expected of deep."
    "\nRedone is what fast had worked on turns that were marked, moved up, asked again or followed by a wish for deep."
)

_KEYS: dict[str, Callable[[CallSums], str]] = {
    "tier": lambda row: row.tier or "",
    "client": lambda row: row.client or "unknown",
    "day": lambda row: row.day or "",
    "month": lambda row: (row.day or "")[:7],
    "caller": lambda row: row.caller,
}
_SUMMED = ("turns", "calls", "input_tokens", "output_tokens", "unpriced", "seconds", "first_seconds", "firsts")

EXAMPLES = (
    "stats",
    "stats --since 2026-11-01 --markdown",
    "stats --by caller",
    "stats --by kind",
    "stats --by look",
    "stats --url https://tandem.example:4000 --key-env TANDEM_KEY",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_looking_arguments(parser)
    parser.add_argument(
        "--by",
        choices=(_DAY, _MONTH, *_SHOWN, _CALLER, _KIND, _LOOK),
        help="only this table; kind: how turns on fast ended, by subject and pair of targets; look: deep's looks",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the sums, the conclusion last."""
    past = open_past(arguments)
    if arguments.by == _LOOK:
        return _print_looks(past.read_looks(arguments.since), arguments)
    sums, savings, kinds = past.read_sums(arguments.since)
    if not sums:
        raise nothing_found(arguments)
    stats: Any = {**_sum_up(sums), "savings": savings, "kinds": kinds}
    if arguments.json:
        name = "kinds" if arguments.by == _KIND else f"by_{arguments.by}"
        print_json(stats if arguments.by is None else {name: stats[name]})
    elif arguments.by == _KIND:
        if not kinds:
            raise Ended(1, "no turn that Tandem sent to fast is known by its kind yet")
        rows = [_kind_cells(kind) for kind in kinds]
        print("\n".join(write_lines(_KIND_TITLES, rows, is_markdown=arguments.markdown, left=_KIND_TITLES[:3])))
    elif arguments.by is not None:
        titles = (arguments.by, *_TITLES, *(("fast", "deep", "errors") if arguments.by == _CALLER else ()))
        print("\n".join(write_lines(titles, _rows(stats, arguments.by), is_markdown=arguments.markdown)))
    else:
        print("\n".join(_readable(stats, is_markdown=arguments.markdown)))
    return 0


def _kind_cells(kind: Any) -> list[str]:
    counts = (f"{kind[name]:,}" for name in ("turns", "accepted", *map(str, Redone)))
    share = f"{100 * (1 - kind['accepted'] / kind['turns']):.0f} %"
    return [kind["kind"], kind["target"], kind["deep_target"] or UNKNOWN, *counts, share]


def _print_looks(days: list[LookSums], arguments: argparse.Namespace) -> int:
    if not days:
        raise Ended(1, f"deep has looked nothing over in that time{_hint_at_looks(arguments)}")
    if arguments.json:
        print_json({"looks": [day._asdict() for day in days]})
        return 0
    rows = [_look_cells(day) for day in (*days, _total_looks(days))[: None if len(days) > 1 else 1]]
    print("\n".join(write_lines(_LOOK_TITLES, rows, is_markdown=arguments.markdown)))
    return 0


def _hint_at_looks(arguments: argparse.Namespace) -> str:
    """How to switch looks on, unless they are on, or another router's config says."""
    if arguments.url is not None or arguments.key_env is not None:
        return ""
    is_on = load_in_use(arguments.config, needs_keys=False).combine.look.when is not LookWhen.OFF
    return "" if is_on else "\n  hint: combine.look: auto in the config switches it on"


def _look_cells(day: LookSums) -> list[str]:
    no_result = day.looks - day.fine - day.objections
    counts = (day.looks, day.fine, day.objections, day.acted_on, day.waved_off, no_result)
    return [day.day, *(f"{number:,}" for number in counts), f"{day.seconds:.1f}", money(day.cost_usd)]


def _total_looks(days: list[LookSums]) -> LookSums:
    costs = [day.cost_usd for day in days if day.cost_usd is not None]
    looks, fine, objections, acted_on, waved_off = (sum(counts) for counts in zip(*(day[1:6] for day in days), strict=True))
    seconds = sum(day.seconds for day in days)
    return LookSums("total", looks, fine, objections, acted_on, waved_off, seconds, sum(costs) if costs else None)


def _sum_up(calls: Sequence[CallSums]) -> JsonObject:
    """Sums in total and by group: `tandem stats --json`."""
    tables: dict[str, dict[str, JsonObject]] = {}
    for name, key in _KEYS.items():
        groups: dict[str, list[CallSums]] = {}
        for row in calls:
            if row.tier is not None or name == "caller":  # callers also see refusals
                groups.setdefault(key(row), []).append(row)
        tables[f"by_{name}"] = {group: _add_up(rows, by_tier=name == "caller") for group, rows in sorted(groups.items())}
    return {
        "total": _add_up(calls),
        **{name: {**groups} for name, groups in tables.items()},
        **{name: sum(getattr(row, name) for row in calls) for name in ("interrupted", "failed", "refused")},
    }


def _add_up(rows: Sequence[CallSums], *, by_tier: bool = False) -> JsonObject:
    served = [row for row in rows if row.tier is not None]
    costs = [row.cost_usd for row in served if row.cost_usd is not None]
    group: JsonObject = {name: sum(getattr(row, name) or 0 for row in served) for name in _SUMMED}
    group["cost_usd"] = sum(costs) if costs else None
    group["list_usd"] = sum(row.list_usd or 0.0 for row in served)
    if by_tier:
        group |= {f"{tier}_turns": sum(row.turns for row in served if row.tier == tier) for tier in Tier}
        group |= {"failed": sum(row.failed for row in rows), "refused": sum(row.refused for row in rows)}
    return group


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


def _readable(stats: Any, *, is_markdown: bool) -> list[str]:
    def table(titles: tuple[str, ...], rows: list[list[str]]) -> list[str]:
        return [*write_lines(titles, rows, is_markdown=is_markdown), ""]

    names = (_MONTH if len(stats["by_day"]) > _MOST_DAYS else _DAY, *_SHOWN)
    if is_markdown:
        lines = []
        for name in names:
            lines += table((name, *_TITLES), _rows(stats, name))
    else:
        rows = []
        for name in names:
            rows += [*_rows(stats, name), [""] * (len(_TITLES) + 1)]
        lines = table(("", *_TITLES), [*rows, ["total", *_cells(stats["total"])]])
    savings = stats["savings"]
    lines += table(("", "cost", "time"), _compare(savings)) if savings["compared_calls"] else []
    ends = ", ".join(f"{stats[name]:,} {name}" for name in ("interrupted", "failed", "refused"))
    lines += [f"calls: {ends}", savings["sentence"]]
    return [*lines, *(["", _NOTE] if savings["compared_calls"] else [])]


def _compare(savings: Any) -> list[list[str]]:
    is_part, redone = bool(savings["left_out"]["unpriced"]), plural(savings["redone"]["turns"], "turn")
    return [
        [words.format(redone), _signed(of["usd"], money, is_part=is_part), _signed(of["seconds"], duration)]
        for of, words in ((savings[name], words) for name, words in _SIDES.items())
    ]


def _signed(value: float | None, write: Callable[..., str], **more: bool) -> str:
    if value is None:
        return UNKNOWN
    return f"-{write(-value, **more)}" if value < 0 else write(value, **more)
