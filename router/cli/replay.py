"""`tandem replay`."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from router.cli import Ended
from router.cli.assumptions import add_assumption_arguments, read_assumptions
from router.cli.common import add_config_argument, load_in_use, print_json, say
from router.cli.figures import UNKNOWN, duration, money
from router.cli.past.combined import write_combined
from router.cli.past.history import PastFiles, add_history_arguments, find_history, without_collection
from router.cli.tables import style_here, write_table
from router.config.load import LoadedConfig
from router.contract.combine import LOOK, NOTHING, PLAN
from router.contract.request import Json, JsonObject
from router.contract.words import Tier
from router.decide.yardstick import Assumptions
from router.house import House
from router.past.combined import LookReport, PlanReport
from router.past.replay import choose_again, decide_again, measure, quiet
from router.past.report import Choices, Example, Report, Row
from router.telemetry import events
from router.telemetry.colour import BOLD, GREEN, RED, paint
from router.wiring.build import build_house

_RECORDED, _ALL_DEEP = "as recorded", "everything on deep"
_MAX_WORDS = 100

EXAMPLES = (
    "replay",
    "replay --ledger --turns 5",
    "replay ~/.codex/sessions --against other.yaml",
    "replay --combine look",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    add_history_arguments(parser)
    parser.add_argument("--against", metavar="FILE", help="another config, to compare")
    parser.add_argument(
        "--combine",
        choices=(PLAN, LOOK),
        help="instead: what `combine` would have done, estimated",
    )
    parser.add_argument("--turns", type=int, default=0, metavar="N", help="show the N turns that change most")
    parser.add_argument("--json", action="store_true", help="print JSON: the report")
    add_assumption_arguments(parser)


@without_collection()
def run(arguments: argparse.Namespace) -> int:
    events.set_up_logging()
    present = load_in_use(arguments.config, needs_keys=False)
    other = load_in_use(arguments.against, needs_keys=False) if arguments.against else present
    if arguments.combine is not None and (arguments.against or arguments.turns):
        raise Ended(2, "give --combine without --against and --turns: it compares the config with combine on and off")
    history = find_history(arguments, present)
    if arguments.combine is not None:
        combined = asyncio.run(_combine(history, present, arguments.combine))
        history.say()
        if arguments.json:
            print_json(combined.as_json())
        else:
            print("\n".join(write_combined(combined)))
        return 0
    report = asyncio.run(_replay(history, present, other, arguments.turns, read_assumptions(arguments)))
    history.say()
    if arguments.json:
        print_json(_as_json(report))
    else:
        print(_readable(report))
    has_moved = report.total.to_fast or report.total.to_deep
    if arguments.turns and has_moved and not report.examples:
        say("no text to show for the turns that change: the ledger keeps text only with ledger.keep_text")
    return 0


async def _replay(history: PastFiles, present: LoadedConfig, other: LoadedConfig, show: int, assumed: Assumptions) -> Report:
    is_compared = other is not present
    before_name = present.source if is_compared else _RECORDED if history.ledger is not None else _ALL_DEEP
    report = Report(before_name, other.source, assumed)
    async with _open_house(present) as house, _open_house(other) as other_house:
        for case in history.cases("replaying"):
            after = await choose_again(other_house, case)
            chosen = await choose_again(house, case) if is_compared else None
            before = (chosen.tier if chosen is not None else None) if is_compared else case.was or Tier.DEEP
            if after is None or before is None:
                report.unservable += 1
                continue
            report.add(case, before, after, measure(house, after, case))
            report.show(case, before, after, show)
            await asyncio.sleep(0)  # lets Ctrl-C through
    return report


async def _combine(history: PastFiles, present: LoadedConfig, name: str) -> PlanReport | LookReport:
    report = PlanReport() if name == PLAN else LookReport(present.combine.look.max_seconds)
    async with _open_house(replace(present, combine=NOTHING)) as house:
        for case in history.cases("replaying"):
            decision = await decide_again(house, case)
            if isinstance(report, PlanReport):
                report.add(case, decision, measure(house, decision, case) if decision is not None else {})
            else:
                report.add(case, decision)
            await asyncio.sleep(0)  # lets Ctrl-C through
    return report


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
    lines = [paint(f"{total.turns} turns: {report.before_name} → {report.after_name}", BOLD, sys.stdout), ""]
    lines.append(f"on fast        {_share(total.before.fast, total.turns)} → {_share(total.after.fast, total.turns)}")
    lines.append(f"moved          {total.to_fast} to fast, {total.to_deep} to deep")
    if total.judged:
        lines.append(
            f"right          {_share(total.before.right, total.judged)} → {_share(total.after.right, total.judged)}"
            f" of {total.judged} turns known to be quick or long"
        )
    if total.timed:
        saved = total.before.seconds - total.after.seconds
        lines.append(f"time to done   {_saved(saved)} over {total.timed} turns of known size")
        lines += ["", *_compare(report)]
    for name, rows in (("kind", report.by_kind), ("client", report.by_client), ("turned out", report.by_size)):
        lines += ["", *_table(name, rows)]
    if report.regrets:
        lines += [
            "",
            "signs of a wrong tier: " + ", ".join(f"{n.replace('_', ' ')} {c}" for n, c in sorted(report.regrets.items())),
        ]
    lines += [f"\n{note}" for note in _notes(report)]
    lines += [_example(example) for example in report.examples]
    return "\n".join(lines)


def _compare(report: Report) -> list[str]:
    total = report.total
    sides = {report.before_name: total.before, "all on deep": total.all_deep, "all on fast": total.all_fast}
    if report.before_name == _ALL_DEEP:
        del sides["all on deep"]
    sides[report.after_name] = total.after
    rows = [
        [
            name,
            duration(side.seconds),
            duration(side.redo_seconds),
            money(side.usd),
            _wrong(side, total),
        ]
        for name, side in sides.items()
    ]
    return write_table(("", "time to done", "of it redo", "cost to done", "wrong in 100"), rows, style_here())


def _notes(report: Report) -> list[str]:
    notes = []
    if report.total.timed:
        notes.append(
            "Times use each turn's own calls and tokens at the current config's speeds and prices; other time in a log"
            f"\n(tools, approvals) is the same on all sides. {report.assumed.sentence().capitalize()}."
        )
    if report.without_text:
        notes.append(
            f"{report.without_text} turns were recorded without their text, or with an override or a ruled-out tier:"
            "\nthey were re-estimated from the recorded opinions, so changed policies have no effect on them."
        )
    if report.unservable:
        notes.append(f"{report.unservable} turns could not be served under one of the configs, and are not counted.")
    return notes


def _table(name: str, rows: Mapping[str, Row]) -> list[str]:
    titles = (name, "turns", "fast before", "fast after", "saved", "redo", "right", "wrong in 100")
    cells = [
        [
            key,
            str(row.turns),
            _share(row.before.fast, row.turns),
            _share(row.after.fast, row.turns),
            _signed(row.before.seconds - row.after.seconds),
            duration(row.after.redo_seconds),
            _share(row.after.right, row.judged),
            _wrong(row.after, row),
        ]
        for key, row in sorted(rows.items())
    ]
    return write_table(titles, cells, style_here())


def _example(example: Example) -> str:
    words = "".join([letter if letter.isprintable() else " " for letter in " ".join(example.words.split())])
    size = f", turned out {example.size}" if example.size else ""
    return (
        f"\n{example.before} → {example.after} ({example.client}{size})\n  {words[:_MAX_WORDS]}"
        f"{'…' if len(words) > _MAX_WORDS else ''}\n  {example.because}"
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else UNKNOWN


def _wrong(side: Choices, row: Row) -> str:
    return f"{100 * side.wrong / row.timed:.1f}" if row.timed else UNKNOWN


def _saved(seconds: float) -> str:
    if seconds >= 0:
        return paint(f"{duration(seconds)} saved", GREEN, sys.stdout)
    return paint(f"{duration(-seconds)} more", RED, sys.stdout)


def _signed(seconds: float) -> str:
    return f"-{duration(-seconds)}" if seconds < 0 else duration(seconds)
