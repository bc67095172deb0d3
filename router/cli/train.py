"""`tandem train`."""

import argparse
import math
from importlib.resources import as_file, files
from pathlib import Path

import orjson

from router.cli.common import complain
from router.contract.features import Features
from router.contract.forest import read_forest
from router.contract.request import JsonObject
from router.lab.boost import Growth
from router.lab.items import BadData, load_items
from router.lab.measure import Figures, Judged, measure
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
    parser.add_argument("--trees", type=int, default=Growth().trees, help="how many trees a forest has (default: %(default)s)")
    parser.add_argument(
        "--force", action="store_true", help="write them even if they are worse than those in use, or not judged"
    )


def run(arguments: argparse.Namespace) -> int:
    """Fit, compare with the weights in use, and write."""
    try:
        rows = read_rows(load_items(arguments.data))
        judges = read_rows(load_items([arguments.dev])) if arguments.dev else []
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
    with as_file(files("policies").joinpath("learned.json")) as in_use:
        out = arguments.out or in_use
        if judges and not _is_good_enough(weights, in_use, judges) and not arguments.force:
            complain("not written: the weights in use are better on the development set")
            complain("hint: --force writes them all the same")
            return 1
        out.write_bytes(new)
    complain(f"wrote {out}, {len(new)} bytes")
    return 0


def _can_be_fitted(rows: list[Row]) -> bool:
    clear = [row for row in rows if row.item.is_clear]
    return len({row.item.is_long for row in clear}) == 2 and len({row.item.repo for row in clear}) > 1


def _is_good_enough(weights: JsonObject, in_use: Path, judges: list[Row]) -> bool:
    """Whether neither AUROC nor regret got worse. Both are printed: they are what the weights are for."""
    new = _judge(weights, judges)
    print(f"new     AUROC {_shown(new)}")
    if not in_use.exists():
        return True
    old = _judge(orjson.loads(in_use.read_bytes()), judges)
    print(f"in use  AUROC {_shown(old)}")
    return (new.auroc or 0.0) >= (old.auroc or 0.0) - _SLACK and new.regret <= old.regret + _SLACK


def _judge(weights: JsonObject, rows: list[Row]) -> Figures:
    fields = Features._fields
    sessions, words = read_forest(weights["sessions"], fields), read_forest(weights["words"], fields)
    judged = []
    for row in rows:
        if row.item.is_clear:
            odds, _ = (sessions if row.features.is_session else words).read(row.features)
            score = 1 / (1 + math.exp(-odds))
            judged.append(Judged(row.item.source, row.item.repo, row.item.is_long, score, score < _FAST_BELOW, 0))
    return measure(judged)


def _shown(figures: Figures) -> str:
    within = "-" if figures.auroc_within is None else f"{figures.auroc_within:.4f}"
    return f"{figures.auroc or 0:.4f}, within a repository {within}, regret at 3:1 {figures.regret:.4f}"
