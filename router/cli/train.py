"""`tandem train`."""

import argparse
import math
import os
from importlib.resources import as_file, files
from pathlib import Path

import orjson

from router.cli.common import complain
from router.contract.features import Features
from router.contract.forest import read_forest
from router.contract.request import JsonObject
from router.lab.boost import Growth
from router.lab.items import BadData, load_items
from router.lab.measure import Figures, Judged, measure, split_by_source
from router.lab.train import Row, fingerprint_of, read_rows, train, weights_bytes

_FAST_BELOW = 0.3
"""About where `preference: balanced` divides, so that two sets of weights are held to the same choice."""
_SLACK = 0.002
"""Two trainings this near to each other are equals."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("data", nargs="+", type=Path, metavar="DATA", help="files of labelled turns to fit to, as JSON lines")
    parser.add_argument(
        "--dev", type=Path, metavar="DATA", help="labelled turns to judge the weights by; none of them are fitted"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write them (default: the weights in use)")
    parser.add_argument("--trees", type=_positive, default=Growth().trees, help="trees in a forest (default: %(default)s)")
    parser.add_argument(
        "--force", action="store_true", help="write them even if they are worse than those in use, or not judged"
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on: {text}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Fit, compare with the weights in use, and write. All that can be refused is refused before the fit."""
    with as_file(files("policies").joinpath("learned.json")) as in_use:
        return _fit_and_write(arguments, in_use, arguments.out or in_use)


def _fit_and_write(arguments: argparse.Namespace, in_use: Path, out: Path) -> int:
    try:
        _check_out(out)
        rows = _read_fitted(arguments.data)
        judges = _read_judges(arguments.dev) if arguments.dev else []
    except BadData as error:
        complain(str(error))
        return 2
    if not _can_be_fitted(rows):
        complain("too little data: both quick and long turns of at least two repositories are needed")
        return 2
    if not judges and not arguments.force:
        complain("give --dev DATA to judge the new weights by, or --force to write them unjudged")
        return 2
    complain(f"fitting to {len(rows)} turns")
    weights = train(rows, fingerprint_of(arguments.data), Growth(trees=arguments.trees), complain)
    new = weights_bytes(weights)
    if judges and not _is_good_enough(weights, in_use, judges) and not arguments.force:
        complain("not written: the weights in use are better on the development set")
        complain("hint: --force writes them all the same")
        return 1
    out.write_bytes(new)
    complain(f"wrote {out}, {len(new)} bytes")
    return 0


def _check_out(out: Path) -> None:
    if out.is_dir():
        raise BadData(f"{out}: is a folder. Name a file with --out")
    if not out.parent.is_dir():
        raise BadData(f"{out}: {out.parent} is not a folder")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise BadData(f"{out}: cannot be written. Name another file with --out")


def _read_fitted(paths: list[Path]) -> list[Row]:
    for path in paths:
        if path.exists() and not path.is_file():
            raise BadData(f"{path}: is not a regular file. It is read twice, so a pipe must be written to a file first")
    return read_rows(load_items(paths))


def _read_judges(path: Path) -> list[Row]:
    judges = read_rows(load_items([path]))
    if not any(row.item.is_clear for row in judges):
        raise BadData(f"{path}: holds no clear turns to judge the weights by")
    return judges


def _can_be_fitted(rows: list[Row]) -> bool:
    clear = [row for row in rows if row.item.is_clear]
    return len({row.item.is_long for row in clear}) == 2 and len({row.item.repo for row in clear}) > 1


def _is_good_enough(weights: JsonObject, in_use: Path, judges: list[Row]) -> bool:
    """Whether neither AUROC nor regret over all got worse. Both are printed: they are what the weights are for."""
    new = _judge(weights, judges)
    old = _judge(orjson.loads(in_use.read_bytes()), judges) if in_use.exists() else []
    complain(
        f"judged on the {len(new)} clear turns of --dev by the weights alone, fast below a score of {_FAST_BELOW};"
        " `tandem eval` decides by all policies and the config, so its figures are others"
    )
    _print(split_by_source(new), split_by_source(old))
    if not old:
        return True
    after, before = measure(new), measure(old)
    return (after.auroc or 0.0) >= (before.auroc or 0.0) - _SLACK and after.regret <= before.regret + _SLACK


def _judge(weights: JsonObject, rows: list[Row]) -> list[Judged]:
    fields = Features._fields
    sessions, words = read_forest(weights["sessions"], fields), read_forest(weights["words"], fields)
    judged = []
    for row in rows:
        if row.item.is_clear:
            odds, _ = (sessions if row.features.is_session else words).read(row.features)
            score = 1 / (1 + math.exp(-odds))
            judged.append(Judged(row.item.source, row.item.repo, row.item.is_long, score, score < _FAST_BELOW, 0))
    return judged


def _print(new: dict[str, list[Judged]], old: dict[str, list[Judged]]) -> None:
    for name, judged in new.items():
        print(f"{name:<24} new     {_shown(measure(judged))}")
        if name in old:
            print(f"{name:<24} in use  {_shown(measure(old[name]))}")


def _shown(figures: Figures) -> str:
    auroc, within = ("     -" if value is None else f"{value:.4f}" for value in (figures.auroc, figures.auroc_within))
    return f"{figures.items:>5} items, AUROC {auroc}, within a repository {within}, regret at 3:1 {figures.regret:.4f}"
