"""`tandem eval`."""

import argparse
import asyncio
import contextlib
import http.client
import os
import urllib.error
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import orjson

from router.cli import Ended
from router.cli.asking import ask
from router.cli.assumptions import add_assumption_arguments, read_assumptions
from router.cli.common import add_config_argument, load_or_end, number_between, print_json, rounded, say
from router.cli.progress import Progress
from router.cli.rescue import evaluate as evaluate_rescue
from router.cli.tables import style_here, write_table
from router.config.load import LoadedConfig
from router.contract.decision import Decision
from router.contract.errors import BadRequest, RequestError, TandemError
from router.contract.request import Json, JsonObject
from router.contract.words import DEFAULT_DIALECT, Preference, Tier
from router.decide.yardstick import TOKENS_PER_CALL, TOOL_SECONDS, Assumptions
from router.house import House
from router.lab.complaints import count_heard, is_heard
from router.lab.items import BadData, Item, arrival_of, load_items, load_remarks
from router.lab.measure import Judged, Pace, cost_curve, measure, measure_to_done, reliability, split_by_set
from router.lab.plots import draw_cost_curve, draw_reliability
from router.screen.figures import plural
from router.wiring.build import build_house

_TIMEOUT_SECONDS = 30.0
_REFUSALS = (400, 413)
"""With these a router refuses one request, such as one that is too long. Any other status is an error of the router itself."""
_COLUMNS = (
    ("items", "items", "{:d}"),
    ("AUROC", "auroc", "{:.3f}"),
    ("quick on fast", "quick_recall", "{:.3f}"),
    ("long on deep", "long_recall", "{:.3f}"),
    ("to done", "seconds", "{:.0f}s"),
    ("of deep", "against_deep", "{:.3f}"),
    ("wrong in 100", "wrong_per_100", "{:.1f}"),
)
_ALL_COLUMNS = (
    *_COLUMNS,
    ("all deep", "seconds_always_deep", "{:.0f}s"),
    ("all fast", "seconds_always_fast", "{:.0f}s"),
    ("of deep", "fast_against_deep", "{:.3f}"),
    ("wrong in 100", "wrong_per_100_always_fast", "{:.1f}"),
    ("regret", "regret", "{:.3f}"),
    ("long", "long_share", "{:.2f}"),
    ("within", "auroc_within", "{:.3f}"),
    ("accuracy", "accuracy", "{:.3f}"),
    ("deep", "regret_always_deep", "{:.3f}"),
    ("fast", "regret_always_fast", "{:.3f}"),
    ("to fast", "fast_share", "{:.2f}"),
    ("precision", "quick_precision", "{:.3f}"),
    ("prec@28%", "quick_precision_at_28", "{:.3f}"),
    ("off by", "calibration_error", "{:.3f}"),
    ("length", "auroc_of_length", "{:.3f}"),
)
_LEGEND = """
AUROC: the chance that a long task scores above a quick one. to done: mean seconds of a turn with redos, over turns whose calls
were recorded; of deep: divided by the same for all of them on deep. wrong in 100: wrong first answers. Only clear items count.
"""
_WHOLE_LEGEND = """
AUROC: the chance that a long task scores above a quick one; within: inside one repository. to done: mean seconds of a turn with
redos, over turns whose calls were recorded; of deep: divided by the same for all of them on deep. wrong in 100: wrong first
answers. All of it again for all on deep and all on fast. regret: mean cost of a choice as `balanced` weighs it, where a quick
edit sent to deep costs 1; deep and fast: the same for always-deep and always-fast. long: the share of long tasks. precision: of
quick edits sent to fast; prec@28%: the same if the 28 % with the lowest scores went there. off by: mean difference between
score and share of long tasks. length: AUROC of the prompt's length alone. Only clear items count.
"""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The items that were judged, and why others were refused."""

    judged: list[Judged] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


EXAMPLES = (
    "eval turns.jsonl",
    "eval turns.jsonl --all",
    "eval turns.jsonl --url http://127.0.0.1:4000",
    "eval turns.jsonl --min-auroc 0.9",
    "eval --rescue calls.jsonl",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("data", nargs="+", type=Path, metavar="DATA", help="files of labelled turns, as JSON lines")
    parser.add_argument(
        "--complaints",
        action="store_true",
        help="the files hold remarks after a turn (asked, says, label bad or fine): print how many complaints are heard",
    )
    parser.add_argument("--url", help="ask a running router (POST /tandem/explain) instead of deciding here")
    parser.add_argument("--without-calls", action="store_true", help="hide tools and tool calls, as a chat-style editor would")
    parser.add_argument("--preference", action="store_true", help="also show what each preference would choose")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write reliability.svg and cost-curve.svg there")
    parser.add_argument(
        "--rescue", action="store_true", help="measure how well turns that go wrong are noticed; DATA holds their calls"
    )
    parser.add_argument(
        "--min-auroc",
        type=number_between(0, 1),
        metavar="AUROC",
        help="for CI: exit with status 1 if the AUROC of a set is below this",
    )
    parser.add_argument("--all", action="store_true", help="print every figure, not only the main ones")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_assumption_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judge every clear item and print the figures."""
    if arguments.min_auroc is not None and (arguments.rescue or arguments.complaints):
        raise Ended(2, "--min-auroc cannot be combined with --rescue or --complaints: it applies to where turns go")
    if arguments.rescue:
        return evaluate_rescue(arguments.data, as_json=arguments.json)
    if arguments.url and arguments.preference:
        raise Ended(2, "--preference and --url cannot be combined: preferences are decided here, not by the router at --url")
    loaded = load_or_end(arguments.config)
    if arguments.complaints:
        return _evaluate_complaints(loaded, arguments.data, as_json=arguments.json)
    try:
        items = [item for item in load_items(arguments.data) if item.is_clear]
    except BadData as error:
        raise Ended(2, str(error)) from error
    if not items:
        raise Ended(2, "these files contain no clear items")
    if arguments.plots:
        _make_folder(arguments.plots)
    if arguments.without_calls:
        items = [replace(item, has_tools=False, calls=(), edits=()) for item in items]
    say(f"judging {len(items)} clear items")
    try:
        verdicts = _ask_all(arguments.url, items) if arguments.url else judge_here(loaded, items)
    except (TandemError, ValueError) as error:
        raise Ended(1, f"cannot judge: {error}") from error
    if not verdicts.judged:
        raise Ended(1, f"cannot judge: every item was refused. The first: {verdicts.refusals[0]}")
    preferences = (
        {name: judge_here(_preferring(loaded, name), items).judged for name in Preference} if arguments.preference else {}
    )
    _tell(arguments, verdicts, preferences, _pace(loaded, read_assumptions(arguments)))
    return 0 if arguments.min_auroc is None else _check_auroc(verdicts.judged, arguments.min_auroc)


def _check_auroc(judged: list[Judged], least: float) -> int:
    """0 if every set with both quick and long items reaches this AUROC, else 1, with a sentence for each that does not."""
    measured = {name: found for name, entries in split_by_set(judged).items() if (found := measure(entries).auroc) is not None}
    missed = {name: found for name, found in measured.items() if found < least}
    for name, found in missed.items():
        say(f"{name}: the AUROC is {found:.4f}, below the {least:g} of --min-auroc")
    if not measured:
        say("no AUROC could be measured for --min-auroc: a set needs both quick and long items")
    return 0 if measured and not missed else 1


@contextlib.contextmanager
def _deciding(loaded: LoadedConfig) -> Iterator[tuple[House, asyncio.Runner]]:
    """A house that only decides, and what runs each decision.

    One run for each: inside a run, Ctrl-C is heard only where something waits, and a decision hardly does.
    """
    house = build_house(loaded, with_ledger=False).house
    try:
        with asyncio.Runner() as runner:
            yield house, runner
    finally:
        house.state.counter.close()


def judge_here(loaded: LoadedConfig, items: list[Item]) -> Verdicts:
    """Every item by the road's own code, with this config."""
    with _deciding(loaded) as (house, runner):
        return _collect(items, lambda item: _choose(runner.run(house.decide(arrival_of(item))).decision))


def _choose(decision: Decision) -> tuple[float, bool]:
    return decision.score, decision.tier is Tier.FAST


def _collect(items: list[Item], judge: Callable[[Item], tuple[float, bool]]) -> Verdicts:
    """Every item with its score and whether it goes to fast. Refused requests are reported, and the others continue."""
    found = Verdicts()
    with Progress("measuring", len(items)) as progress:
        for item in items:
            try:
                score, is_fast = judge(item)
            except RequestError as error:
                found.refusals.append(str(error))
            else:
                judged = Judged(item.set_name, item.repo, item.is_long, score, is_fast, len(item.prompt), item.work_calls)
                found.judged.append(judged)
            progress.advance(1)
    return found


def _pace(loaded: LoadedConfig, assumed: Assumptions) -> Pace:
    """How fast the first target of each tier typically is."""
    fast, deep = (
        next(plan.target.typical for plan in loaded.targets if plan.target.tier is tier) for tier in (Tier.FAST, Tier.DEEP)
    )
    return Pace(fast, deep, assumed)


def _preferring(loaded: LoadedConfig, preference: Preference) -> LoadedConfig:
    return replace(loaded, config=loaded.config.model_copy(update={"preference": preference}))


def _ask_all(url: str, items: list[Item]) -> Verdicts:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"--url must begin with http:// or https://: {url}")
    return _collect(items, lambda item: _ask(url, item))


def _ask(url: str, item: Item) -> tuple[float, bool]:
    """What a running router makes of an item. If something else answers there, the error names the URL."""
    try:
        path = f"/tandem/explain?dialect={DEFAULT_DIALECT}"
        with ask(url, path, arrival_of(item).raw, within_seconds=_TIMEOUT_SECONDS) as answer:
            told = orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        if error.code in _REFUSALS:
            raise BadRequest(f"status {error.code}") from error
        raise ValueError(f"{url} answered {error.code}") from error
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{url} answered with something other than JSON") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ValueError(f"{url} cannot be reached: {getattr(error, 'reason', error)}") from error
    score, tier = (told.get("score"), told.get("tier")) if isinstance(told, dict) else (None, None)
    if not isinstance(score, (int, float)) or tier not in tuple(Tier):
        raise ValueError(f"{url} answered without a score and a tier: is it a Tandem router?")
    return float(score), tier == Tier.FAST


def _make_folder(folder: Path) -> None:
    """Make the folder before the work that fills it. Raises `Ended`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise Ended(2, f"--plots {folder}: is not a folder") from error
    except OSError as error:
        raise Ended(2, f"--plots {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise Ended(2, f"--plots {folder}: cannot be written to")


def _tell(arguments: argparse.Namespace, verdicts: Verdicts, preferences: dict[Preference, list[Judged]], pace: Pace) -> None:
    sets, refusals = split_by_set(verdicts.judged), verdicts.refusals
    if arguments.plots:
        _draw(arguments.plots, sets, preferences)
    if arguments.json:
        print_json({**_as_json(sets, preferences, pace), "left_out": len(refusals)})
    else:
        _print(sets, preferences, pace, shows_all=arguments.all)
    if refusals:
        say(f"left out {plural(len(refusals), 'item')} that the router refused. The first: {refusals[0]}")


def _print(sets: dict[str, list[Judged]], preferences: dict[Preference, list[Judged]], pace: Pace, *, shows_all: bool) -> None:
    columns = _ALL_COLUMNS if shows_all else _COLUMNS
    groups = {**sets, **{f"preference: {preference}": judged for preference, judged in preferences.items()}}
    rows = [[name, *_cells(_figures(judged, pace), columns)] for name, judged in groups.items()]
    print("\n".join(write_table(("", *(title for title, _, _ in columns)), rows, style_here())))
    say((_WHOLE_LEGEND if shows_all else _LEGEND).rstrip())
    say(f"{pace.assumed.sentence()}; a call writes {TOKENS_PER_CALL:g} tokens, a tool takes {TOOL_SECONDS:g} s")


_Columns = tuple[tuple[str, str, str], ...]


def _figures(judged: list[Judged], pace: Pace) -> dict[str, Json]:
    """Every figure of a set, by its name."""
    to_done = asdict(measure_to_done(judged, pace))
    return {**asdict(measure(judged)), **{("timed_items" if name == "items" else name): to_done[name] for name in to_done}}


def _cells(found: dict[str, Json], columns: _Columns) -> list[str]:
    return ["-" if found[field] is None else form.format(found[field]) for _, field, form in columns]


def _as_json(sets: dict[str, list[Judged]], preferences: dict[Preference, list[Judged]], pace: Pace) -> JsonObject:
    def figures_of(groups: dict[str, list[Judged]]) -> JsonObject:
        return {name: _rounded(_figures(judged, pace)) for name, judged in groups.items()}

    first = next(iter(sets.values()))
    return {
        "assumed": pace.assumed.as_json(),
        "sets": figures_of(sets),
        "preferences": figures_of({str(name): judged for name, judged in preferences.items()}),
        "reliability": [[round(mean, 4), round(share, 4), count] for mean, share, count in reliability(first)],
        "cost_curve": [[round(threshold, 4), round(cost, 4)] for threshold, cost in cost_curve(first)],
    }


def _rounded(figures: dict[str, Json]) -> JsonObject:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}


def _draw(folder: Path, sets: dict[str, list[Judged]], preferences: dict[Preference, list[Judged]]) -> None:
    name_of_set, judged = next(iter(sets.items()))
    figures = measure(judged)
    chosen = []
    named = {str(name): entries for name, entries in preferences.items()} or {"chosen": judged}
    for name, entries in named.items():
        same = [entry for entry in entries if entry.source == judged[0].source]
        highest = max((entry.score for entry in same if entry.is_fast), default=0.0)
        chosen.append((name, highest, measure(same).regret))
    pictures: dict[str, Callable[[], str]] = {
        "reliability.svg": lambda: draw_reliability(reliability(judged), name_of_set),
        "cost-curve.svg": lambda: draw_cost_curve(cost_curve(judged), figures.regret_always_deep, chosen, name_of_set),
    }
    for name, draw in pictures.items():
        (folder / name).write_text(draw(), encoding="utf-8")
        say(f"wrote {folder / name}")


def _evaluate_complaints(loaded: LoadedConfig, paths: list[Path], *, as_json: bool) -> int:
    """Say how many complaints are heard, and how often something else is taken for one."""
    try:
        remarks = load_remarks(paths)
    except BadData as error:
        raise Ended(2, str(error)) from error
    if not remarks:
        raise Ended(2, 'these files contain no remarks: a line needs "asked", "says" and the label "bad" or "fine"')
    are_heard = []
    with _deciding(loaded) as (house, runner), Progress("listening", len(remarks)) as progress:
        for remark in remarks:
            are_heard.append(runner.run(is_heard(house, remark)))
            progress.advance(1)
    heard = count_heard(remarks, are_heard)
    if as_json:
        print_json({"catch": rounded(heard.catch), "false_alarm": rounded(heard.false_alarm), **asdict(heard)})
        return 0
    print(f"catch        {_share(heard.caught, heard.bad)} complaints about the turn before are heard")
    print(f"false alarm  {_share(heard.alarms, heard.fine)} other remarks are taken for a complaint")
    return 0


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}  {part} of {whole}" if whole else f"-      0 of {whole}"
