"""`tandem eval`."""

import argparse
import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from router.cli import Ended
from router.cli.asking import Refused, Unreachable, ask_object
from router.cli.common import add_config_argument, load_in_use, number_between, print_json, say
from router.cli.progress import Progress
from router.cli.tables import cell, style_here, write_table
from router.config.load import LoadedConfig
from router.contract.errors import BadRequest, RequestError, TandemError
from router.contract.request import JsonObject
from router.contract.rescue import FROM_CALL, SHIPPED
from router.contract.words import DEFAULT_DIALECT, SAID_WRONG, Tier
from router.dialects.fields import as_list, as_object, as_text
from router.past.figures import (
    AFTER_CALLS,
    LONG_CALLS,
    Judged,
    RescueFigures,
    count_heard,
    measure,
    measure_rescue,
    split_by_set,
)
from router.past.labelled import BadData, Item, arrival_of, load_items, load_remarks, load_turns
from router.screen.figures import plural
from router.wiring.build import build_house

_TIMEOUT_SECONDS = 30.0
_REFUSALS = (400, 413)
"""Statuses that refuse one request, such as one too long. Others are errors of the router."""
_LEGEND = """
AUROC: the chance that a long task scores above a quick one. quick on fast, long on deep: the shares that went there.
Only clear items count.
"""
RESCUE_LEGEND = f"""
AUROC after N calls: the chance that a turn which ends badly scores above one that does not, among turns of N calls and more.
catch: the share of bad turns in which it raised an alarm before the last call; alarm: the same of fine turns. It says nothing
before call {FROM_CALL}.
"""
_FIELDS = {
    "turns": "prompt or text, and the label quick or long",
    "complaints": "says, asked, and the label bad or fine",
    "rescue": "calls, and the label bad or fine",
}
Explain = Callable[[Item], JsonObject]
"""Returns what `tandem explain --json` prints."""

EXAMPLES = (
    "eval turns.jsonl",
    "eval turns.jsonl --url http://127.0.0.1:4000",
    "eval turns.jsonl --min-auroc 0.9",
    "eval remarks.jsonl --kind complaints",
    "eval calls.jsonl --kind rescue --json",
)


class Verdicts(NamedTuple):
    judged: list[Judged]
    refusals: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("data", nargs="+", type=Path, metavar="DATA", help="files of labelled JSON lines, all of one kind")
    parser.add_argument(
        "--kind",
        choices=tuple(_FIELDS),
        default="turns",
        help="what is measured: where turns go, remarks heard as complaints, bad turns noticed while they run "
        "(default: %(default)s)",
    )
    parser.add_argument("--url", help="where the router is, to ask it (POST /tandem/explain) instead of deciding here")
    parser.add_argument(
        "--min-auroc",
        type=number_between(0, 1),
        metavar="AUROC",
        help="exit with 1 if the AUROC of turns is lower",
    )
    parser.add_argument("--json", action="store_true", help="print JSON: the figures")


def run(arguments: argparse.Namespace) -> int:
    if arguments.min_auroc is not None and arguments.kind != "turns":
        raise Ended(2, f"--min-auroc cannot be combined with --kind {arguments.kind}: it applies to where turns go")
    if arguments.url and arguments.kind == "rescue":
        raise Ended(2, "--url cannot be combined with --kind rescue: it measures the weights of this version, without a router")
    if arguments.url and not arguments.url.startswith(("http://", "https://")):
        raise Ended(2, f"--url must begin with http:// or https://: {arguments.url}")
    try:
        if arguments.kind == "rescue":
            return _evaluate_rescue(arguments)
        return _evaluate_complaints(arguments) if arguments.kind == "complaints" else _evaluate_turns(arguments)
    except BadData as error:
        hint = f"\n  hint: a line of --kind {arguments.kind} has {_FIELDS[arguments.kind]}" if "missing" in str(error) else ""
        raise Ended(2, f"{error}{hint}") from error
    except (TandemError, ValueError) as error:
        raise Ended(1, f"cannot judge: {error}") from error


def _evaluate_turns(arguments: argparse.Namespace) -> int:
    items = [item for item in load_items(arguments.data) if item.is_clear]
    if not items:
        raise BadData("these files contain no clear items")
    say(f"judging {plural(len(items), 'clear item')}")
    with _explaining(arguments) as explain:
        judged, refusals = judge(explain, items)
    if not judged:
        raise ValueError(f"every item was refused. The first: {refusals[0]}")
    figures = {name: measure(entries) for name, entries in split_by_set(judged).items()}
    if arguments.json:
        sets = {name: _rounded(found._asdict()) for name, found in figures.items()}
        print_json({"sets": sets, "left_out": len(refusals)})
    else:
        rows = [
            [name, str(found.items), cell(found.auroc), cell(found.quick_recall), cell(found.long_recall)]
            for name, found in figures.items()
        ]
        print("\n".join(write_table(("", "items", "AUROC", "quick on fast", "long on deep"), rows, style_here())))
        say(_LEGEND.rstrip())
    if refusals:
        say(f"left out {plural(len(refusals), 'item')} that the router refused. The first: {refusals[0]}")
    measured = {name: found.auroc for name, found in figures.items() if found.auroc is not None}
    return 0 if arguments.min_auroc is None else _check_auroc(measured, arguments.min_auroc)


def _check_auroc(measured: dict[str, float], least: float) -> int:
    """0 if every set with quick and long items reaches this AUROC, else 1."""
    missed = {name: found for name, found in measured.items() if found < least}
    for name, found in missed.items():
        say(f"{name}: the AUROC is {found:.4f}, below the {least:g} of --min-auroc")
    if not measured:
        say("no AUROC could be measured for --min-auroc: a set needs both quick and long items")
    return 0 if measured and not missed else 1


def _evaluate_complaints(arguments: argparse.Namespace) -> int:
    remarks, are_heard = load_remarks(arguments.data), []
    if not remarks:
        raise BadData("these files contain no remarks")
    with _explaining(arguments) as explain, Progress("listening", len(remarks)) as progress:
        for remark in remarks:
            are_heard.append(is_heard(explain(remark.as_item())))
            progress.advance(1)
    heard = count_heard(remarks, are_heard)
    if arguments.json:
        print_json(_rounded(heard._asdict()))
    else:
        print(f"catch        {cell(heard.catch)}  {heard.caught} of {heard.bad} complaints about the turn before are heard")
        print(f"false alarm  {cell(heard.false_alarm)}  {heard.alarms} of {heard.fine} other remarks are taken for a complaint")
    return 0


def is_heard(told: JsonObject) -> bool:
    evidence = map(as_object, as_list(told.get("evidence")))
    return any(said.get("kind") == "lean" and as_text(said.get("because")).startswith(SAID_WRONG) for said in evidence)


def _evaluate_rescue(arguments: argparse.Namespace) -> int:
    turns = load_turns(arguments.data)
    if not turns:
        raise BadData("these files contain no turns")
    sources = dict.fromkeys(turn.source for turn in turns)
    figures = {name: measure_rescue([(turn, SHIPPED) for turn in turns if turn.source == name]) for name in sources}
    whole = measure_rescue([(turn, SHIPPED) for turn in turns])
    if arguments.json:
        print_json({**_rescue_json(whole), "files": {name: _rescue_json(found) for name, found in figures.items()}})
    else:
        print(write_rescue({**figures, "all": whole} if len(figures) > 1 else figures))
        say(RESCUE_LEGEND.rstrip())
    return 0


def write_rescue(figures: dict[str, RescueFigures]) -> str:
    rows = []
    for name, found in figures.items():
        ranked = [f"{cell(found.auroc[calls])} of {found.turns_after[calls]}" for calls in AFTER_CALLS]
        for title, part, after in (
            (name, found.every, ranked),
            (f"{name}, {LONG_CALLS} calls and more", found.long, [""] * len(ranked)),
        ):
            rows.append([title, str(part.turns), str(part.bad), *after, cell(part.catch), cell(part.alarm)])
    titles = ["", "turns", "bad", *(f"after {calls}" for calls in AFTER_CALLS), "catch", "alarm"]
    return "\n".join(write_table(titles, rows, style_here()))


def _rescue_json(found: RescueFigures) -> JsonObject:
    ranked: JsonObject = {
        "auroc": {str(calls): found.auroc[calls] for calls in AFTER_CALLS},
        "turns_after": {str(calls): found.turns_after[calls] for calls in AFTER_CALLS},
    }
    return _rounded({**found.every._asdict(), **ranked, f"from_{LONG_CALLS}_calls": found.long._asdict()})


def _rounded(figures: JsonObject) -> JsonObject:
    return {
        name: _rounded(value) if isinstance(value, dict) else round(value, 4) if isinstance(value, float) else value
        for name, value in figures.items()
    }


@contextlib.contextmanager
def explaining_here(loaded: LoadedConfig) -> Iterator[Explain]:
    """Decide in this process, with a run per decision: Ctrl-C is noticed only between runs."""
    house = build_house(loaded, with_ledger=False).house
    try:
        with asyncio.Runner() as runner:
            yield lambda item: runner.run(house.explain(arrival_of(item)))
    finally:
        house.state.counter.close()


def _explaining(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[Explain]:
    if arguments.url:
        return contextlib.nullcontext(partial(_ask, arguments.url))
    return explaining_here(load_in_use(arguments.config, needs_keys=False))


def judge(explain: Explain, items: Sequence[Item]) -> Verdicts:
    found = Verdicts([], [])
    with Progress("measuring", len(items)) as progress:
        for item in items:
            try:
                told = explain(item)
                found.judged.append(Judged(item, float(str(told["score"])), told["tier"] == Tier.FAST))
            except RequestError as error:
                found.refusals.append(str(error))
            progress.advance(1)
    return found


def _ask(url: str, item: Item) -> JsonObject:
    """Errors name the URL."""
    try:
        path = f"/tandem/explain?dialect={DEFAULT_DIALECT}"
        told = ask_object(url, path, arrival_of(item).raw, within_seconds=_TIMEOUT_SECONDS)
    except Refused as error:
        if error.status in _REFUSALS:
            raise BadRequest(f"status {error.status}") from error
        raise ValueError(f"{url} answered {error.status}") from error
    except Unreachable as error:
        raise ValueError(f"{url} cannot be asked: {error}") from error
    if not isinstance(told.get("score"), (int, float)) or told.get("tier") not in tuple(Tier):
        raise ValueError(f"{url} answered without a score and a tier: is it a Tandem router?")
    return told
