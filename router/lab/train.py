"""Fitting the trained reading: what was typed against what it meant, and the finished turns against the work that followed.

Two plain regressions. The first reads words and shape, and is fitted to everything; the second reads the finished turns of
later turns, with what the first says beside it, so that history is credited only with what the words leave open.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router.contract.features import HISTORY, MARKS, TABLE_SIZE, Features
from router.contract.reading import read_weights, temper, write_weights
from router.contract.request import JsonObject
from router.lab.items import ASKS, COMMITS, MEANING, Item, turn_of
from router.sense.features import read_features

FOLDS = 6
_KIND_WEIGHTS = {ASKS: 1.0, MEANING: 2.5, COMMITS: 0.03}
"""What an item counts by where it comes from. Real prompts are few and written asks sound clean; commits are many."""
_SESSION_WEIGHT, _OTHER_WEIGHT = 0.15, 0.6
"""Recorded turns whose words nobody labelled: what followed says little of what was meant."""
_LARGE_REPO = 30
"""A repository with more items than this counts as if it had fewer: nobody's habits are to be learnt by heart."""
_PIECES_SCALE, _MARKS_SCALE, _LENGTH_SCALE = 5.0, 0.5, 4.0
"""How large each kind of column is. A larger one is drawn to nought less: there is only one length, and it must count."""
_OWN_SCALE, _OWN_SHARE = 0.4, 0.5
"""Real prompts get a second set of columns, for what words mean there and not in written asks; so much of it is served."""
_WORDS_PULL, _HISTORY_PULL = 1.0, 0.1
_MARGIN = 0.5
"""Log-odds by which the reading leans to quick, on top of an honest score: real quick prompts score higher than written ones,
and would else wait on deep in half of all cases."""
_LONGEST_WEIGHT = 0.9995
"""The share of weights that must fit into the steps of a byte; the few beyond are cut to the largest step."""
_MARK_STARTS = [sum(len(edges) + 1 for edges in list(MARKS.values())[:place]) for place in range(len(MARKS) + 1)]
_COLUMNS = TABLE_SIZE + _MARK_STARTS[-1] + 1
_HISTORY_STARTS = [sum(len(edges) + 1 for edges in list(HISTORY.values())[:place]) for place in range(len(HISTORY) + 1)]


class CannotFit(Exception):
    """The fit needs more than there is."""


@dataclass(frozen=True, slots=True)
class Row:
    """An item as the weights see it."""

    item: Item
    features: Features

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
            rows.append(Row(item, read_features(turn.person_text, turn.history, offers_tools=item.has_tools)))
    return rows


def fingerprint_of(paths: Sequence[Path]) -> str:
    """Which data, byte for byte."""
    digest = hashlib.blake2b(digest_size=8)
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def leave_out_fitted(fitted: Sequence[Item], judges: Sequence[Item]) -> list[Item]:
    """The judging items whose words were not fitted, whatever file they stand in."""
    known = {item.prompt.strip() for item in fitted}
    return [item for item in judges if item.prompt.strip() not in known]


@dataclass(frozen=True, slots=True)
class Fitted:
    """Weights as the bytes of their file, and the odds of each row by weights whose words have seen nothing of its group."""

    content: bytes
    odds: list[float]


def fit(rows: Sequence[Row], fingerprint: str, report: Callable[[str], None]) -> Fitted:
    """Fit words, then history. The same rows always give the same bytes. Raises `CannotFit`."""
    if not _has_both(rows):
        raise CannotFit("too little data: both quick and long items that count are needed")
    report(f"words: fitting to {len(rows)} items")
    words = _fit_words(rows)
    odds = score_out_of_fold(rows, report)
    offset = _find_offset(rows, odds)
    report(f"words: offset {offset:+.3f}")
    history_start, history = _fit_history(rows, odds, offset)
    table, marks, length, start = words
    trained_on: JsonObject = {
        "data": fingerprint,
        "items": len(rows),
        "kinds": dict(sorted(Counter(row.item.set_name for row in rows).items())),
    }
    header: JsonObject = {
        "start": round(start + offset, 4),
        "length": round(length, 4),
        "marks": _name_steps(MARKS, _MARK_STARTS, marks),
        "history_start": round(history_start, 4),
        "history": _name_steps(HISTORY, _HISTORY_STARTS, history),
        "trained_on": trained_on,
    }
    content = write_weights(header, table)
    weights = read_weights(content)
    tempered = [
        temper(value + offset, weights.read_history(row.features)) if row.features.history else value + offset
        for row, value in zip(rows, odds, strict=True)
    ]
    return Fitted(content, tempered)


def score_out_of_fold(rows: Sequence[Row], report: Callable[[str], None]) -> list[float]:
    """The odds that the words of each row have by a fit that has seen nothing of its group."""
    folds = _fold_by_group(rows)
    odds = [0.0] * len(rows)
    for fold in range(FOLDS):
        kept = [row for row, own in zip(rows, folds, strict=True) if own != fold]
        left = [index for index, own in enumerate(folds) if own == fold]
        if left and _has_both(kept):
            table, marks, length, start = _fit_words(kept)
            for index in left:
                odds[index] = _read_words(rows[index].features, table, marks, length, start)
        report(f"words: fold {fold + 1} of {FOLDS}")
    return odds


def _has_both(rows: Sequence[Row]) -> bool:
    return len({row.label for row, weight in zip(rows, _weigh(rows), strict=True) if weight}) == 2


_WordsFit = tuple[list[float], list[float], float, float]
"""The table, the weights of marks, that of the length, and the start."""


def _fit_words(rows: Sequence[Row]) -> _WordsFit:
    learn, sparse, numpy = _libraries()
    weights = _weigh(rows)
    kept = [row for row, weight in zip(rows, weights, strict=True) if weight]
    values, columns, starts = _columns_of(kept, numpy)
    used, columns = numpy.unique(columns, return_inverse=True)  # most places of a small table are empty
    matrix = sparse.csr_matrix((values, columns, starts), shape=(len(kept), len(used)))
    own = numpy.array([_OWN_SCALE * (row.item.kind == MEANING) for row in kept])
    model = learn.LogisticRegression(C=_WORDS_PULL, max_iter=300, tol=1e-4)
    model.fit(
        sparse.hstack([matrix, sparse.diags(own) @ matrix]).tocsr(),
        [row.label for row in kept],
        sample_weight=[weight for weight in weights if weight],
    )
    found = numpy.zeros(_COLUMNS)
    found[used] = model.coef_[0][: len(used)] + _OWN_SHARE * _OWN_SCALE * model.coef_[0][len(used) :]
    pieces = found[:TABLE_SIZE] * _PIECES_SCALE
    used = numpy.abs(pieces[pieces != 0])
    most = float(numpy.quantile(used, _LONGEST_WEIGHT)) if len(used) else 0.0
    table = numpy.clip(pieces, -most, most).tolist()
    marks = (found[TABLE_SIZE:-1] * _MARKS_SCALE).tolist()
    return table, marks, float(found[-1] * _LENGTH_SCALE), float(model.intercept_[0])


def _columns_of(rows: Sequence[Row], numpy: Any) -> tuple[Any, Any, Any]:
    """Values, columns and starts of a sparse matrix: the pieces, one column for each step of a mark, and the length."""
    columns: list[int] = []
    values: list[float] = []
    starts = [0]
    for row in rows:
        features = row.features
        columns += features.pieces
        values += [_PIECES_SCALE / math.sqrt(len(features.pieces))] * len(features.pieces)
        columns += [TABLE_SIZE + start + step for start, step in zip(_MARK_STARTS, features.marks, strict=False)]
        values += [_MARKS_SCALE] * len(features.marks)
        columns.append(_COLUMNS - 1)
        values.append(_LENGTH_SCALE * features.length)
        starts.append(len(columns))
    return numpy.array(values), numpy.array(columns), numpy.array(starts)


def _read_words(features: Features, table: list[float], marks: list[float], length: float, start: float) -> float:
    total = start + length * features.length
    total += sum(marks[first + step] for first, step in zip(_MARK_STARTS, features.marks, strict=False))
    return total + sum(table[piece] for piece in features.pieces) / math.sqrt(len(features.pieces) or 1)


def _find_offset(rows: Sequence[Row], odds: Sequence[float]) -> float:
    """What must be added to be honest on words that were not fitted.

    Asks and real prompts count the same, and so do the quick and the long ones among each.
    """
    found: list[tuple[float, float, float]] = []
    for kind in (ASKS, MEANING):
        sides = [
            [(value, label) for value, row in zip(odds, rows, strict=True) if _is_kind(row, kind) and row.label == label]
            for label in (0.0, 1.0)
        ]
        if all(sides):  # a set of one kind alone would drag the offset as far as it goes
            found += [(value, label, 1.0 / len(side)) for side in sides for value, label in side]
    offset = 0.0
    for _ in range(50):
        slope = sum((label - _chance(value + offset)) * weight for value, label, weight in found)
        curve = sum(_chance(value + offset) * (1 - _chance(value + offset)) * weight for value, _, weight in found)
        offset += max(-1.0, min(1.0, slope / curve)) if curve > 1e-9 else 0.0
    return offset - _MARGIN if found else 0.0


def _is_kind(row: Row, kind: str) -> bool:
    return row.item.kind == kind and row.item.is_clear


def _chance(odds: float) -> float:
    return 1 / (1 + math.exp(-max(-40.0, min(40.0, odds))))


def _fit_history(rows: Sequence[Row], odds: Sequence[float], offset: float) -> tuple[float, list[float]]:
    """What finished turns say beyond the words, from recorded turns that were not the first of their session."""
    learn, _, numpy = _libraries()
    later = [
        (row, value)
        for row, value in zip(rows, odds, strict=True)
        if row.item.is_session and row.item.is_clear and row.features.history
    ]
    if len({row.label for row, _ in later}) < 2:
        return 0.0, [0.0] * _HISTORY_STARTS[-1]
    matrix = numpy.zeros((len(later), _HISTORY_STARTS[-1] + 1))
    for index, (row, value) in enumerate(later):
        for start, step in zip(_HISTORY_STARTS, row.features.history, strict=False):
            matrix[index, start + step] = 1.0
        matrix[index, -1] = (value + offset) / 3
    model = learn.LogisticRegression(C=_HISTORY_PULL, max_iter=2_000)
    model.fit(matrix, [row.label for row, _ in later])
    return float(model.intercept_[0]), model.coef_[0][:-1].tolist()


def _libraries() -> tuple[Any, Any, Any]:
    """scikit-learn and what comes with it: 100 MB that only training needs."""
    try:
        import numpy
        from scipy import sparse
        from sklearn import linear_model
    except ImportError as error:
        raise CannotFit(
            "training needs scikit-learn\n  hint: pip install 'tandem-router[train]', or make setup in a checkout"
        ) from error
    return linear_model, sparse, numpy


def _weigh(rows: Sequence[Row]) -> list[float]:
    """What each row counts.

    What is neither clearly quick nor clearly long is left out, and so is the work that followed where it is known what the
    words meant.
    """
    meant = {row.item.id for row in rows if row.item.kind == MEANING}
    sizes = Counter(row.item.repo for row in rows if _is_kind(row, MEANING))
    weights = []
    for row in rows:
        item = row.item
        if not item.is_clear or not row.features.pieces or (not item.kind and item.id and item.id in meant):
            weights.append(0.0)
            continue
        weight = item.weight * _KIND_WEIGHTS.get(item.kind, _SESSION_WEIGHT if item.is_session else _OTHER_WEIGHT)
        if item.kind == MEANING and sizes[item.repo] > _LARGE_REPO:
            weight *= math.sqrt(_LARGE_REPO / sizes[item.repo])
        weights.append(weight)
    return weights


def _fold_by_group(rows: Sequence[Row]) -> list[int]:
    """A fold for each row, all rows of a group in one: the largest go first, each to the emptiest fold."""
    filled = [0] * FOLDS
    homes = {}
    for group, size in sorted(Counter(row.item.group for row in rows).items(), key=lambda pair: (-pair[1], pair[0])):
        home = filled.index(min(filled))
        homes[group] = home
        filled[home] += size
    return [homes[row.item.group] for row in rows]


def _name_steps(kinds: Mapping[str, Sequence[int]], starts: list[int], values: list[float]) -> JsonObject:
    """Weights by the name of what they weigh, so that a person can read them."""
    return {
        name: [round(value, 4) for value in values[start:end]]
        for name, start, end in zip(kinds, starts, starts[1:], strict=False)
    }
