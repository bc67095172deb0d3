"""Fitting the trained reading: the person's words and finished turns against what became of the turn.

Two forests: `sessions` reads everything, and is fitted to agent sessions alone; `words` does without the history of
calls, for clients that show none, and learns from the other sources too.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from router.contract.features import HISTORY_FIELDS, Features
from router.contract.forest import Forest, read_forest, write_forest
from router.contract.request import JsonObject
from router.contract.signals import History
from router.lab.boost import Examples, Growth, grow_forest, rescale
from router.lab.items import Item, turn_of
from router.sense.features import read_features

VERSION = 1
_FOLDS = 6
_MIDDLE_WEIGHT = 0.2
"""An item between the rules has the nearer label, and counts for less."""
_LARGE_REPO = 60
"""A repository with more items than this counts as if it had fewer: nobody's habits are to be learnt by heart."""
_OTHER_WEIGHT = 0.35
"""What an item from outside the sessions counts when the words-only forest grows."""
_BARE_SHARE = 1.0
"""What items without tools weigh in the calibration, against one for all with tools."""
_LONGEST_STEP = 1.0
_ALL_PLACES = tuple(place for place, name in enumerate(Features._fields) if name != "is_session")
_WORD_PLACES = tuple(place for place in _ALL_PLACES if Features._fields[place] not in HISTORY_FIELDS)


@dataclass(frozen=True, slots=True)
class Row:
    """An item as the forests see it: as it came, and as it would have come from a client that shows no tools."""

    item: Item
    features: Features
    words: Features

    @property
    def label(self) -> float:
        """1 for a long task."""
        return float(self.item.is_long)


def read_rows(items: Sequence[Item]) -> list[Row]:
    """Measure every item by the road's own code. One without words is left out."""
    rows = []
    for item in items:
        turn = turn_of(item)
        if turn.person_text:
            features = read_features(turn.person_text, turn.history, item.has_tools)
            rows.append(Row(item, features, read_features(turn.person_text, _hide_calls(turn.history), False)))
    return rows


def _hide_calls(history: History) -> History:
    return history._replace(last=tuple(turn._replace(calls=0, edits=0) for turn in history.last))


def fingerprint_of(paths: Sequence[Path]) -> str:
    """Which data, byte for byte."""
    digest = hashlib.blake2b(digest_size=8)
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def train(rows: Sequence[Row], fingerprint: str, growth: Growth, report: Callable[[str], None]) -> JsonObject:
    """The weights, as they are written to their file."""
    sessions = [row for row in rows if row.item.is_session] or list(rows)
    clear = [row for row in sessions if row.item.is_clear]
    bare = [replace(row, features=row.words) for row in rows]
    return {
        "version": VERSION,
        "trained_on": {
            "data": fingerprint,
            "items": len(rows),
            "sessions": len(sessions),
            "repositories": len({row.item.repo for row in sessions}),
        },
        "base_rate": round(sum(row.label for row in clear) / len(clear), 4),
        "sessions": write_forest(_fit_calibrated(sessions, _ALL_PLACES, growth, report, "sessions"), Features._fields),
        "words": write_forest(_fit_calibrated(bare, _WORD_PLACES, growth, report, "words"), Features._fields),
    }


def score_out_of_fold(rows: Sequence[Row], places: Sequence[int], growth: Growth, report: Callable[[str], None]) -> list[float]:
    """The log-odds of each row by a forest that has seen nothing of its repository."""
    folds = _fold_by_repo(rows)
    odds = [0.0] * len(rows)
    for fold in range(_FOLDS):
        kept = [row for row, own in zip(rows, folds, strict=True) if own != fold]
        if not kept or len(kept) == len(rows):
            continue
        forest = _fit(kept, places, growth)
        for index, (row, own) in enumerate(zip(rows, folds, strict=True)):
            if own == fold:
                odds[index] = forest.read(row.features)[0]
        report(f"fold {fold + 1} of {_FOLDS}")
    return odds


def calibrate(odds: Sequence[float], rows: Sequence[Row]) -> tuple[float, float]:
    """Slope and offset that make log-odds honest on clear rows (Platt's way).

    Rows weigh as in training, except that items without tools together weigh a fixed part of all others: how many of such a
    client's turns are like these is not known.
    """
    weighed = [(value, row, weight) for value, row, weight in zip(odds, rows, _weigh(rows), strict=True) if row.item.is_clear]
    bare = sum(weight for _, row, weight in weighed if not row.item.has_tools)
    rest = sum(weight for _, row, weight in weighed if row.item.has_tools)
    lift = _BARE_SHARE * rest / bare if bare and rest else 1.0
    found = [(value, row.label, weight if row.item.has_tools else weight * lift) for value, row, weight in weighed]
    slope, offset = 1.0, 0.0
    for _ in range(25):
        # A pull to slope 1 and offset 0, as strong as one item: perfectly divided data would else drive them to infinity.
        gradient = [1.0 - slope, -offset]
        bend = [1.0, 0.0, 1.0]
        for value, label, weight in found:
            p = 1 / (1 + math.exp(max(-40.0, min(40.0, -(slope * value + offset)))))
            miss, curve = (label - p) * weight, p * (1 - p) * weight
            gradient[0] += miss * value
            gradient[1] += miss
            bend[0] += curve * value * value
            bend[1] += curve * value
            bend[2] += curve
        scale = bend[0] * bend[2] - bend[1] ** 2
        slope += _step((bend[2] * gradient[0] - bend[1] * gradient[1]) / scale)
        offset += _step((bend[0] * gradient[1] - bend[1] * gradient[0]) / scale)
    if slope > 0:
        return slope, offset
    # Scores that order turns the wrong way say nothing: what is left is how many turns are long.
    share = sum(label * weight for _, label, weight in found) / sum(weight for *_, weight in found)
    return 0.0, math.log(max(share, 1e-3) / max(1 - share, 1e-3))


def _step(size: float) -> float:
    """A step of the fit, no longer than it may be: far from the goal the curve misleads."""
    return max(-_LONGEST_STEP, min(_LONGEST_STEP, size))


def _fit_calibrated(
    rows: Sequence[Row], places: Sequence[int], growth: Growth, report: Callable[[str], None], name: str
) -> Forest:
    odds = score_out_of_fold(rows, places, growth, lambda step: report(f"{name}: {step}"))
    slope, offset = calibrate(odds, rows)
    report(f"{name}: calibrated with slope {slope:.3f} and offset {offset:+.3f}; fitting to everything")
    return rescale(_fit(rows, places, growth), slope, offset)


def _fit(rows: Sequence[Row], places: Sequence[int], growth: Growth) -> Forest:
    forest = grow_forest(Examples([row.features for row in rows], [row.label for row in rows], _weigh(rows)), places, growth)
    return read_forest(write_forest(forest, Features._fields, digits=9), Features._fields)


def _weigh(rows: Sequence[Row]) -> list[float]:
    sizes = Counter(row.item.repo for row in rows if row.item.is_session)
    weights = []
    for row in rows:
        weight = 1.0 if row.item.is_clear else _MIDDLE_WEIGHT
        if not row.item.is_session:
            weight *= _OTHER_WEIGHT
        elif sizes[row.item.repo] > _LARGE_REPO:
            weight *= math.sqrt(_LARGE_REPO / sizes[row.item.repo])
        weights.append(weight)
    return weights


def _fold_by_repo(rows: Sequence[Row]) -> list[int]:
    """A fold for each row, all rows of a repository in one: the largest go first, each to the emptiest fold."""
    filled = [0] * _FOLDS
    homes = {}
    for repo, size in sorted(Counter(row.item.repo for row in rows).items(), key=lambda pair: (-pair[1], pair[0])):
        home = filled.index(min(filled))
        homes[repo] = home
        filled[home] += size
    return [homes[row.item.repo] for row in rows]


def weights_bytes(weights: JsonObject) -> bytes:
    """The file's bytes: one line for each part, so that a new training shows what it changed."""
    parts = [orjson.dumps(key) + b":" + _pretty(value) for key, value in weights.items()]
    return b"{\n" + b",\n".join(parts) + b"\n}\n"


def _pretty(value: object) -> bytes:
    if isinstance(value, dict) and isinstance(value.get("trees"), list):
        trees = b",\n".join(orjson.dumps(tree) for tree in value["trees"])
        return b'{"start":' + orjson.dumps(value["start"]) + b',"trees":[\n' + trees + b"\n]}"
    return orjson.dumps(value)
