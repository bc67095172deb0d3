"""`tandem replay`."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping

import orjson

from router.cli.common import add_config_argument, load_or_report
from router.cli.past import PastFiles, add_history_arguments, find_history
from router.config.load import LoadedConfig
from router.contract.request import Json, JsonObject
from router.contract.words import Tier
from router.house import House
from router.lab.cases import Case
from router.lab.replay import choose_again, measure, quiet
from router.lab.report import Example, Report, Row
from router.telemetry import events
from router.wiring import build_house

_RECORDED, _ALL_DEEP = "as recorded", "everything on deep"
_MAX_WORDS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_config_argument(parser)
    add_history_arguments(parser)
    parser.add_argument("--against", metavar="FILE", help="another config to compare with the current one")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="show the N turns that change most, with their text")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Decide every past turn again and print what would change."""
    events.set_up_logging(as_json=True)
    present = load_or_report(arguments.config)
    other = load_or_report(arguments.against) if arguments.against else present
    if present is None or other is None:
        return 2
    history = find_history(arguments, present, joins=False)
    if history is None:
        return 2
    report = asyncio.run(_replay(history, present, other, arguments.show))
    history.say()
    print(orjson.dumps(_as_json(report), option=orjson.OPT_INDENT_2).decode() if arguments.json else _readable(report))
    has_moved = report.total.to_fast or report.total.to_deep
    if arguments.show and has_moved and not report.examples:
        print("no text to show for the turns that change: the ledger keeps text only with ledger.keep_text", file=sys.stderr)
    return 0


async def _replay(history: PastFiles, present: LoadedConfig, other: LoadedConfig, show: int) -> Report:
    is_compared = other is not present
    before_name = present.source if is_compared else _RECORDED if history.ledger is not None else _ALL_DEEP
    report = Report(before_name, other.source)
    async with _open_house(present) as house, _open_house(other) as other_house:
        for case in history.cases("replaying"):
            after = await choose_again(other_house, case)
            before = await _choose_before(house, case) if is_compared else case.was or Tier.DEEP
            if after is None or before is None:
                report.unservable += 1
                continue
            report.add(case, before, after, measure(house, after, case.size))
            report.show(case, before, after, show)
            await asyncio.sleep(0)  # so that Ctrl-C is heard
    return report


async def _choose_before(house: House, case: Case) -> Tier | None:
    choice = await choose_again(house, case)
    return None if choice is None else choice.tier


@contextlib.asynccontextmanager
async def _open_house(loaded: LoadedConfig) -> AsyncIterator[House]:
    built = build_house(loaded, with_ledger=False)
    try:
        yield quiet(built.house)
    finally:
        await built.close()


def _as_json(report: Report) -> JsonObject:
    examples: list[Json] = [
        {
            "words": example.words,
            "client": example.client,
            "before": str(example.before),
            "after": str(example.after),
            "score": round(example.score, 4),
            "size": str(example.size) if example.size else None,
            "because": example.because,
        }
        for example in report.examples
    ]
    return {**report.as_json(), **({"examples": examples} if examples else {})}


def _readable(report: Report) -> str:
    total = report.total
    if not total.turns:
        return "no turns"
    lines = [f"{total.turns} turns: {report.before_name} → {report.after_name}", ""]
    lines.append(f"on fast        {_share(total.before.fast, total.turns)} → {_share(total.after.fast, total.turns)}")
    lines.append(f"moved          {total.to_fast} to fast, {total.to_deep} to deep")
    if total.timed:
        saved = total.before.seconds - total.after.seconds
        lines.append(
            f"time to done   {_time(total.before.seconds)} → {_time(total.after.seconds)}: {_saved(saved)}"
            f" over {total.timed} turns of known size"
        )
        lines.append(f"redo included  {_time(total.before.redo_seconds)} → {_time(total.after.redo_seconds)}")
    if total.judged:
        lines.append(
            f"right          {_share(total.before.right, total.judged)} → {_share(total.after.right, total.judged)}"
            f" of {total.judged} turns known to be quick or long"
        )
        lines.append(
            f"regret         {_regret(total, is_after=False)} → {_regret(total, is_after=True)} per 100 of those turns"
        )
    for name, rows in (("kind", report.by_kind), ("client", report.by_client), ("turned out", report.by_size)):
        lines += ["", *_table(name, rows)]
    if report.regrets:
        lines += ["", "signs of regret: " + ", ".join(f"{n.replace('_', ' ')} {c}" for n, c in sorted(report.regrets.items()))]
    lines += [f"\n{note}" for note in _notes(report)]
    lines += [_example(example) for example in report.examples]
    return "\n".join(lines)


def _notes(report: Report) -> list[str]:
    notes = []
    if report.total.timed:
        notes.append(
            "Times are for the actual size of each turn, with redos, at the speeds of the current config on both sides."
        )
    if report.without_text:
        notes.append(
            f"{report.without_text} turns were recorded without their text, or with an override or a ruled-out tier:"
            "\nthey were estimated again from the recorded opinions, so that changed policies have no effect on them."
        )
    if report.unservable:
        notes.append(f"{report.unservable} turns could not be served under one of the configs, and are not counted.")
    return notes


def _table(name: str, rows: Mapping[str, Row]) -> list[str]:
    columns = (("turns", 6), ("fast before", 12), ("fast after", 11), ("saved", 9), ("redo", 9), ("right", 6), ("regret", 7))
    lines = [f"{name:<14} " + " ".join(f"{column:>{width}}" for column, width in columns)]
    for key, row in sorted(rows.items()):
        right = _share(row.after.right, row.judged) if row.judged else "-"
        regret = _regret(row, is_after=True) if row.judged else "-"
        lines.append(
            f"{key:<14} {row.turns:>6} {_share(row.before.fast, row.turns):>12} {_share(row.after.fast, row.turns):>11}"
            f" {_time(row.before.seconds - row.after.seconds):>9} {_time(row.after.redo_seconds):>9} {right:>6} {regret:>7}"
        )
    return lines


def _example(example: Example) -> str:
    words = "".join([letter if letter.isprintable() else " " for letter in " ".join(example.words.split())])
    size = f", turned out {example.size}" if example.size else ""
    return (
        f"\n{example.before} → {example.after} ({example.client}{size})\n  {words[:_MAX_WORDS]}"
        f"{'…' if len(words) > _MAX_WORDS else ''}\n  {example.because}"
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _regret(row: Row, *, is_after: bool) -> str:
    side = row.after if is_after else row.before
    return f"{100 * side.regret / row.judged:.0f}"


def _saved(seconds: float) -> str:
    return f"{_time(seconds)} saved" if seconds >= 0 else f"{_time(-seconds)} more"


def _time(seconds: float) -> str:
    size = abs(seconds)
    if size < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if size < 7_200 else f"{seconds / 3_600:.1f} h"
