"""`tandem train`."""

import argparse
import os
from importlib.resources import as_file, files
from pathlib import Path

from router.cli import Ended
from router.cli.common import free_backup, say
from router.cli.rescue import train as train_rescue
from router.cli.tables import cell, style_here, write_table
from router.contract.economics import FLIP_SCORES
from router.contract.reading import Weights, read_weights
from router.contract.words import Preference
from router.lab.complaints import count_heard
from router.lab.items import BadData, load_items, load_remarks
from router.lab.marks import sigmoid
from router.lab.measure import Judged, measure, split_by_set
from router.lab.train import CannotFit, Row, fingerprint_of, fit, leave_out_fitted, read_rows

_FAST_BELOW = FLIP_SCORES[Preference.BALANCED]
"""About where `preference: balanced` divides, so that two sets of weights are held to the same choice."""
_MAX_OVERLAP = 0.01
"""The share of a development set that may be fitted too: short words ("fix typo") are written by many."""
_DEFAULT_OUT = Path("learned.weights")

EXAMPLES = (
    "train turns.jsonl --dev held-out.jsonl",
    "train turns.jsonl --out mine.weights",
    "train --rescue calls.jsonl",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", nargs="+", type=Path, metavar="DATA", help="files of labelled turns, asks or commits to fit, as JSON lines"
    )
    parser.add_argument(
        "--dev",
        action="append",
        default=[],
        type=Path,
        metavar="DATA",
        help="a file to test the weights on; it is not fitted",
    )
    parser.add_argument(
        "--rescue",
        action="store_true",
        help="fit the detector of turns that go wrong; DATA holds the calls of turns. Prints the weights and writes no file",
    )
    parser.add_argument(
        "--out", type=Path, default=_DEFAULT_OUT, metavar="FILE", help="where to write them (default: %(default)s, here)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Fit, show how well the weights do on unseen data, and write them to their own file."""
    if arguments.rescue:
        return train_rescue(arguments.data)
    try:
        _check_out(arguments.out)
        rows = _read_fitted(arguments.data)
        judges = _read_judges(arguments.dev, rows) if arguments.dev else []
    except BadData as error:
        raise Ended(2, str(error)) from error
    if not _can_be_fitted(rows):
        needed = "both quick and long items are needed, in at least two groups (repositories, or fifty asks)"
        raise Ended(2, f"too little data: {needed}")
    try:
        remarks = load_remarks(arguments.data)
        fitted = fit(rows, remarks, fingerprint_of(arguments.data), say)
    except CannotFit as error:
        raise Ended(2, str(error)) from error
    say(f"\nthe weights alone, fast below a score of {_FAST_BELOW}; each group is judged by weights fitted without it")
    _print({name: [("", judged)] for name, judged in split_by_set(_judge(rows, fitted.odds)).items()})
    if remarks:
        heard = count_heard(remarks, fitted.are_heard)
        say(f"complaints: {cell(heard.catch)} of {heard.bad} heard, false alarm in {cell(heard.false_alarm)} of {heard.fine}")
    if judges:
        _compare(read_weights(fitted.content), judges)
    try:
        _write(arguments.out, fitted.content)
    except OSError as error:
        raise Ended(1, f"{arguments.out}: cannot be written: {error.strerror}") from error
    say(f"wrote {arguments.out}, {len(fitted.content)} bytes")
    say(f"hint: in config.yaml, policies: [..., {{learned: {{weights: {arguments.out.resolve()}}}}}] uses them")
    return 0


def _write(out: Path, content: bytes) -> None:
    """Write the whole file before it replaces an older one, which is kept."""
    fresh = out.with_name(f".{out.name}.new")
    fresh.write_bytes(content)
    if out.exists():
        kept = free_backup(out)
        out.rename(kept)
        say(f"kept the old file as {kept}")
    fresh.replace(out)


def _check_out(out: Path) -> None:
    if out.is_dir():
        raise BadData(f"{out}: is a folder. Name a file with --out")
    if not out.parent.is_dir():
        raise BadData(f"{out}: {out.parent} is not a folder")
    if not os.access(out.parent, os.W_OK):
        raise BadData(f"{out}: cannot be written. Name another file with --out")


def _read_fitted(paths: list[Path]) -> list[Row]:
    for path in paths:
        if path.exists() and not path.is_file():
            raise BadData(f"{path}: is not a regular file. It is read twice, so a pipe must be written to a file first")
    items = load_items(paths)
    say(f"reading {len(items)} items")
    return read_rows(items)


def _read_judges(paths: list[Path], fitted: list[Row]) -> list[Row]:
    items = load_items(paths)
    names = ", ".join(map(str, paths))
    unseen = leave_out_fitted([row.item for row in fitted], items)
    overlap = len(items) - len(unseen)
    if overlap > _MAX_OVERLAP * len(items):
        raise BadData(
            f"{names}: {overlap} of {len(items)} items are in the training data too, so the test would be biased"
            "\n  hint: divide the data by file or by repository"
        )
    if overlap:
        say(f"left out {overlap} of {len(items)} items of {names} that are in the training data too")
    judges = read_rows(unseen)
    if not any(row.item.is_clear for row in judges):
        raise BadData(f"{names}: no clear turns to test the weights on")
    return judges


def _can_be_fitted(rows: list[Row]) -> bool:
    clear = [row for row in rows if row.item.is_clear]
    return len({row.item.is_long for row in clear}) == 2 and len({row.item.group for row in clear}) > 1


def _compare(new: Weights, judges: list[Row]) -> None:
    """The new weights next to those that come with Tandem."""
    with as_file(files("policies").joinpath("learned.weights")) as shipped:
        old = read_weights(shipped.read_bytes())
    found = {
        name: split_by_set(_judge(judges, _read_all(weights, judges))) for name, weights in (("new", new), ("shipped", old))
    }
    say("\nthe weights alone, on --dev")
    _print({name: [(side, found[side][name]) for side in ("new", "shipped")] for name in found["new"]})


def _read_all(weights: Weights, rows: list[Row]) -> list[float]:
    return [weights.read_size(row.features, is_later=row.item.prior_turns > 0) for row in rows]


def _judge(rows: list[Row], odds: list[float]) -> list[Judged]:
    judged = []
    for row, value in zip(rows, odds, strict=True):
        if row.item.is_clear:
            score, item = sigmoid(value), row.item
            judged.append(Judged(item.set_name, item.repo, item.is_long, score, score < _FAST_BELOW, len(item.prompt)))
    return judged


def _print(sets: dict[str, list[tuple[str, list[Judged]]]]) -> None:
    rows = []
    for name, sides in sets.items():
        for side, judged in sides:
            figures = measure(judged)
            found = (figures.auroc, figures.quick_recall, figures.long_recall)
            rows.append([f"{name} {side}".rstrip(), str(figures.items), *(cell(value) for value in found)])
    titles = ("", "items", "AUROC", "quick on fast", "long on deep")
    print("\n".join(write_table(titles, rows, style_here())))
