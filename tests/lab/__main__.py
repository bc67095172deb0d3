"""`python -m tests.lab`: fit the weights that come with Tandem, and measure decisions on labelled data."""

import argparse
import asyncio
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from policies.reading import Weights, load_weights, read_weights
from router.cli import Ended
from router.cli.common import add_config_argument, load_or_end, say
from router.cli.tables import cell, style_here, write_table
from router.contract.economics import FLIP_SCORES
from router.contract.words import Preference
from tests.lab import score
from tests.lab.bars import Figure, explaining, judge_seen, judge_unseen, list_figures
from tests.lab.explanations import explain_drawn
from tests.lab.figures import Judged, measure, split_by_set
from tests.lab.functions import make_functions
from tests.lab.items import Row, load_replies, load_rows
from tests.lab.labelled import BadData
from tests.lab.libraries import CannotFit
from tests.lab.train import fingerprint_of, fit

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHIPPED_WEIGHTS = ROOT / "policies" / "learned.weights"
SHARED_DATA = ROOT.parent / "shared" / "routing-data"
_FAST_BELOW = FLIP_SCORES[Preference.BALANCED]
"""About where `preference: balanced` divides, so that two sets of weights are held to the same choice."""
_MAX_OVERLAP = 0.01
"""The share of a development set that may be fitted too: short words ("fix typo") are written by many."""


def shipped_data(folder: Path) -> list[Path]:
    """The files that the shipped weights are fitted to, in order."""
    asks = [folder / "asks" / f"{name}.jsonl" for name in "abcdefg"]
    own = [HERE / f"{name}.jsonl" for name in ("first-things", "shapes", "follow-ups")]
    labelled = ("meaning.jsonl", "more/labels.jsonl", "train.jsonl", "offers.jsonl", "remarks.jsonl")
    return [*asks, *own, *(folder / name for name in labelled)]


def main(given: Sequence[str] | None = None) -> int:
    """Run one subcommand. Exit codes as those of `tandem`."""
    arguments = build_parser().parse_args(given)
    try:
        return int(arguments.run(arguments))
    except (BadData, CannotFit) as error:
        say(str(error))
        return 2
    except Ended as end:
        say(end.text)
        return end.code


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    train = commands.add_parser("train", help="fit the trained reading; without DATA, as the shipped weights were fitted")
    train.add_argument("data", nargs="*", type=Path, metavar="DATA", help="files of labelled turns, asks, remarks or commits")
    train.add_argument("--dev", action="append", default=[], type=Path, metavar="DATA", help="a file to judge by; not fitted")
    train.add_argument(
        "--out", type=Path, default=ROOT / ".cache" / "learned.weights", metavar="FILE", help="default: %(default)s"
    )
    train.set_defaults(run=_train)
    bars = commands.add_parser("bars", help="judge the whole road on repositories, projects and asks that were left out")
    bars.set_defaults(run=_show_bars)
    scored = commands.add_parser("score", help="how labelled turns are decided, here or by a running router")
    add_config_argument(scored)
    scored.add_argument("data", nargs="+", type=Path, metavar="DATA", help="files of labelled turns")
    scored.add_argument("--url", help="where the router is, to ask it (POST /tandem/explain) instead of deciding here")
    scored.add_argument("--json", action="store_true", help="print the figures as JSON")
    scored.set_defaults(run=score.run)
    explanations = commands.add_parser("explanations", help="print explanations of turns drawn at random, to be read by people")
    add_config_argument(explanations)
    explanations.add_argument(
        "--seed", type=int, default=46, help="one seed always draws the same turns (default: %(default)s)"
    )
    explanations.add_argument("--count", type=int, default=60, help="how many to draw (default: %(default)s)")
    explanations.set_defaults(run=_print_explanations)
    return parser


def _train(arguments: argparse.Namespace) -> int:
    """Fit, show how well the weights do on unseen data, write them, and compare them with the shipped ones."""
    data = arguments.data or shipped_data(SHARED_DATA)
    rows, replies = load_rows(data), load_replies(data)
    judges = _read_judges(arguments.dev, rows) if arguments.dev else []
    if len({row.group for row in rows if row.item.is_clear}) < 2:
        raise CannotFit("too little data: items of at least two groups are needed (repositories, or fifty asks)")
    fitted = fit(rows, replies, fingerprint_of(data), say)
    say(f"\nthe weights alone, fast below a score of {_FAST_BELOW}; each group is judged by weights fitted without it")
    _print_sets({name: [("", judged)] for name, judged in split_by_set(_judge(rows, fitted.odds)).items()})
    if judges:
        _compare(read_weights(fitted.content), judges)
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_bytes(fitted.content)
    say(f"wrote {arguments.out}: {_say_difference(fitted.content, SHIPPED_WEIGHTS.read_bytes())}")
    return 0


def _show_bars(_: argparse.Namespace) -> int:
    data = shipped_data(SHARED_DATA)
    rows, replies = load_rows(data), load_replies(data)
    with explaining(SHIPPED_WEIGHTS.read_bytes()) as explain:
        wordings = [*judge_seen(explain, rows, make_functions())]
    print(
        "\n".join(
            write_table(
                ("", "items", "share"), [[one.name, str(len(one.is_right)), cell(one.share)] for one in wordings], style_here()
            )
        )
    )
    _print_figures(list_figures(rows, replies, judge_unseen(rows, replies, say)))
    return 0


def _print_figures(figures: Iterable[Figure]) -> None:
    table = [[one.name, str(one.count), cell(one.value), f"{cell(one.low)} to {cell(one.high)}"] for one in figures]
    print("\n".join(write_table(("", "items", "", "95 %"), table, style_here())))


def _say_difference(content: bytes, shipped: bytes) -> str:
    """How new weights differ from the shipped ones. By a few steps: the same data, on another kind of processor."""
    if content == shipped:
        return "identical to policies/learned.weights"
    tables = zip(content.partition(b"\n")[2], shipped.partition(b"\n")[2], strict=False)
    steps = [abs(new - old) for new, old in tables if new != old]
    furthest = max(steps, default=0)
    return f"differs from policies/learned.weights in {len(steps)} of its weights, by at most {furthest} of 255 steps"


def _read_judges(paths: list[Path], fitted: list[Row]) -> list[Row]:
    """The items to judge by, without those whose words are fitted too. Refused if these are many."""
    rows, known = load_rows(paths), {row.item.prompt.strip() for row in fitted}
    unseen = [row for row in rows if row.item.prompt.strip() not in known]
    names, overlap = ", ".join(map(str, paths)), len(rows) - len(unseen)
    if overlap > _MAX_OVERLAP * len(rows):
        raise BadData(f"{names}: {overlap} of {len(rows)} items are in the training data too, so the test would be biased")
    if overlap:
        say(f"left out {overlap} of {len(rows)} items of {names} that are in the training data too")
    if not any(row.item.is_clear for row in unseen):
        raise BadData(f"{names}: no clear turns to test the weights on")
    return unseen


def _compare(new: Weights, judges: list[Row]) -> None:
    """The new weights next to the shipped ones, on items that neither has seen."""
    sides = {"new": new, "shipped": load_weights(str(SHIPPED_WEIGHTS))}
    found = {
        side: split_by_set(
            _judge(judges, [weights.read_size(row.features, is_later=row.item.prior_turns > 0) for row in judges])
        )
        for side, weights in sides.items()
    }
    say("\nthe weights alone, on --dev")
    _print_sets({name: [(side, found[side][name]) for side in sides] for name in found["new"]})


def _judge(rows: list[Row], odds: list[float]) -> list[Judged]:
    scored = [(row.item, 1 / (1 + math.exp(-value))) for row, value in zip(rows, odds, strict=True) if row.item.is_clear]
    return [Judged(item, score, score < _FAST_BELOW) for item, score in scored]


def _print_sets(sets: dict[str, list[tuple[str, list[Judged]]]]) -> None:
    rows = []
    for name, sides in sets.items():
        for side, judged in sides:
            found = measure(judged)
            figures = (cell(value) for value in (found.auroc, found.quick_recall, found.long_recall))
            rows.append([f"{name} {side}".rstrip(), str(found.items), *figures])
    print("\n".join(write_table(("", "items", "AUROC", "quick on fast", "long on deep"), rows, style_here())))


def _print_explanations(arguments: argparse.Namespace) -> int:
    async def print_all() -> None:
        drawn = explain_drawn(load_or_end(arguments.config), SHARED_DATA.parent, arguments.seed, arguments.count)
        number = 0
        async for explained in drawn:
            number += 1
            print(f"{number}. {explained}\n")

    asyncio.run(print_all())
    return 0


if __name__ == "__main__":
    sys.exit(main())
