"""Fitting the trained reading: four plain regressions over the same features of a text.

`words` reads how large a task is, and is fitted to everything; `real` reads the same, and is fitted to real prompts alone.
How much the second counts next to the first is set here, apart for first and for later turns, and their sum is brought to
honest odds on real prompts that were not fitted. `vague` tells words that only point back at the last turn.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policies.reading import COLUMNS, TABLES, read_weights, write_weights
from router.contract.features import MARKS, TABLE_SIZE, Features, fold_places
from router.contract.request import JsonObject
from router.dialects.fields import as_object
from router.sense.features import read_features
from router.sense.offers import read_offer
from tests.lab.items import DECLINED, VAGUE, Reply, Row, mask_names, widen
from tests.lab.labelled import ASKS, COMMITS, MEANING
from tests.lab.libraries import CannotFit, load_libraries
from tests.lab.turns import fit_sum
from tests.lab.wraps import report_done

FOLDS = 6
_KIND_WEIGHTS = {ASKS: 1.0, MEANING: 2.5, COMMITS: 0.0, VAGUE: 0.0, DECLINED: 0.0}
"""What an item counts by where it comes from. Real prompts are few and written asks sound clean. Commits made the reading of
real prompts worse (AUROC 0.861 → 0.845): what people write about a change is not what they ask for."""
_SESSION_WEIGHT, _OTHER_WEIGHT = 0.15, 0.6
"""Recorded turns whose words nobody labelled: what followed says little of what was meant."""
_LARGE_REPO = 30
"""A repository with more items than this counts as if it had fewer: nobody's habits are to be learnt by heart."""
_PIECES_SCALE, _MARKS_SCALE, _LENGTH_SCALE = 5.0, 0.5, 4.0
"""How large each kind of column is. A larger one is drawn to zero less: there is only one length, and it must count."""
_OWN_SCALE, _OWN_SHARE = 0.4, 0.5
"""Real prompts get a second set of columns, for what words mean there and not in written asks; half of it is served."""
_SOUND = 0.1
"""How much of the difference between real prompts and written asks is removed from the words: long tasks are half of the
written asks and a quarter of the real prompts, and without it how a text sounds would count as its size."""
_FIRST_SHARE, _LATER_SHARE = 0.2, 0.4
"""How much the reader of real prompts counts next to the other one. More ranks real prompts better and written asks worse:
decisions/0030."""
_OFFER_WEIGHT, _ASK_AS_OFFER_WEIGHT, _REPORT_WEIGHT, _ANSWER_WEIGHT = 4.0, 0.2, 0.1, 2.0
"""What an offer counts, a written ask and a report next to it, and an answer to an offer next to a phrase that points back."""
_ASK_AGAINST_VAGUE = 2.0
"""An ask that is taken for an approval is worse than an approval that is read as an ask."""
_LONGEST_WEIGHT = 0.9995
"""The share of weights that must fit into the steps of a byte; the few beyond are cut to the largest step."""
_MARK_STARTS = [sum(len(edges) + 1 for edges in list(MARKS.values())[:index]) for index in range(len(MARKS) + 1)]
_COLUMNS = TABLE_SIZE + _MARK_STARTS[-1] + 1

Report = Callable[[str], None]
_NO_SUM: JsonObject = {"start": 0.0, "columns": {name: float(name == "words") for name in COLUMNS}}
_NO_HEADER: JsonObject = {"trained_on": {}}


@dataclass(frozen=True, slots=True)
class Fitted:
    """Weights as the bytes of their file, and the odds of each row by weights that have seen nothing of its group."""

    content: bytes
    odds: list[float]


def fingerprint_of(paths: Sequence[Path]) -> str:
    """Which data, byte for byte."""
    digest = hashlib.blake2b(digest_size=8)
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def fit(rows: Sequence[Row], replies: Sequence[Reply], fingerprint: str, report: Report) -> Fitted:
    """Fit all readers and the sum. The same data always gives the same bytes. Raises `CannotFit`."""
    count, rows = len(rows), mask_names([*rows, *widen(rows)])
    weights = weigh_rows(rows)
    if len({row.label for row, weight in zip(rows, weights, strict=True) if weight}) < 2:
        raise CannotFit("too little data: both quick and long items that count are needed")
    report(f"words: fitting to {len(rows)} items and {len(replies)} replies")
    folds = _Folds(rows, replies)
    parts = [_fit_readers(*folds.without(fold, weights)) for fold in range(FOLDS)]
    odds = [parts[fold].read_sizes(row.features) for fold, row in zip(folds.rows, rows, strict=True)]
    line = _find_line(rows, odds)
    report(f"words: {line[0]:.3f} × sum {line[1]:+.3f}")
    turn = fit_sum(rows, replies, (folds.rows, folds.replies), [read_weights(part.write(line)) for part in parts])
    report("later turns: " + ", ".join(f"{name} {value:+.2f}" for name, value in as_object(turn["columns"]).items()))
    header: JsonObject = {
        "trained_on": {
            "data": fingerprint,
            "items": count,
            "kinds": dict(sorted(Counter(row.item.set_name for row in rows[:count]).items())),
            "replies": len(replies),
        },
    }
    content = _fit_readers(rows, weights, replies).write(line, turn, header)
    slope, start = line
    blended = [start + slope * _add_up(row, pair) for row, pair in zip(rows, odds, strict=True)]
    return Fitted(content, blended[:count])


class _Folds:
    """A fold for each row and reply: all of a group in one."""

    def __init__(self, rows: Sequence[Row], replies: Sequence[Reply]) -> None:
        self._all = rows, replies
        folds = divide([each.group for each in (*rows, *replies)])
        self.rows, self.replies = folds[: len(rows)], folds[len(rows) :]

    def without(self, fold: int, weights: Sequence[float]) -> "tuple[Sequence[Row], list[float], list[Reply]]":
        """Everything but a fold. Its rows stay, and count nothing."""
        rows, replies = self._all
        kept = [0.0 if own == fold else weight for own, weight in zip(self.rows, weights, strict=True)]
        return (
            rows,
            kept,
            [one for own, one in zip(self.replies, replies, strict=True) if own != fold],
        )


@dataclass(frozen=True, slots=True)
class _Readers:
    words: "_Reader"
    real: "_Reader"
    vague: "_Reader"
    offer: "_Reader"

    def read_sizes(self, features: Features) -> tuple[float, float]:
        return self.words.read(features), self.real.read(features)

    def write(self, line: tuple[float, float], turn: JsonObject = _NO_SUM, header: JsonObject = _NO_HEADER) -> bytes:
        first, later = (self.words.plus(self.real, share).scaled(*line) for share in (_FIRST_SHARE, _LATER_SHARE))
        readers = {"first": first, "later": later, "vague": self.vague, "offer": self.offer}
        tables = {name: reader.named(TABLES[name]) for name, reader in readers.items()}
        return write_weights({"turn": turn, **header}, tables)


def _fit_readers(rows: Sequence[Row], weights: Sequence[float], replies: Sequence[Reply]) -> _Readers:
    seen = [row for row, weight in zip(rows, weights, strict=True) if weight or row.kind in (VAGUE, DECLINED)]
    return _Readers(
        _fit_words(rows, weights),
        _fit_real(rows, weights),
        _fit_vague(seen, replies),
        _fit_offer(seen, replies),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """One fitted regression."""

    table: list[float]
    marks: list[float]
    length: float
    start: float

    def read(self, features: Features) -> float:
        total = self.start + self.length * features.length
        total += sum(self.marks[first + step] for first, step in zip(_MARK_STARTS, features.marks, strict=False))
        return total + sum(self.table[piece] for piece in features.pieces) / math.sqrt(len(features.pieces) or 1)

    def plus(self, other: "_Reader", share: float) -> "_Reader":
        """The same with a share of another."""
        table = [own + share * value for own, value in zip(self.table, other.table, strict=True)]
        marks = [own + share * value for own, value in zip(self.marks, other.marks, strict=True)]
        return _Reader(table, marks, self.length + share * other.length, self.start + share * other.start)

    def scaled(self, slope: float, start: float) -> "_Reader":
        """The same with its odds brought to a line."""
        table, marks = ([slope * value for value in values] for values in (self.table, self.marks))
        return _Reader(table, marks, slope * self.length, start + slope * self.start)

    def named(self, size: int) -> tuple[JsonObject, list[float]]:
        """Its header, so that a person can read it, and its table of that size."""
        marks: JsonObject = {
            name: [round(value, 4) for value in self.marks[start:end]]
            for name, start, end in zip(MARKS, _MARK_STARTS, _MARK_STARTS[1:], strict=False)
        }
        return {"start": round(self.start, 4), "length": round(self.length, 4), "marks": marks}, self.table[:size]


_NOTHING = _Reader([0.0] * TABLE_SIZE, [0.0] * _MARK_STARTS[-1], 0.0, -5.0)
"""A reader that was given no data: it never hears anything."""


def _fit_words(rows: Sequence[Row], weights: Sequence[float]) -> _Reader:
    """To everything. Real prompts have columns of their own, of which a share is served."""
    kept = [(row, weight) for row, weight in zip(rows, weights, strict=True) if weight]
    own = [_OWN_SCALE * (row.kind == MEANING) for row, _ in kept]
    size = _fit(
        [row.features for row, _ in kept], [row.label for row, _ in kept], [weight for _, weight in kept], own, _OWN_SHARE
    )
    heard = [row for row, _ in kept if row.kind in (ASKS, MEANING)]
    if len({row.kind for row in heard}) < 2:
        return size
    sound = _fit([row.features for row in heard], [float(row.kind == MEANING) for row in heard], [1.0] * len(heard))
    return size.plus(sound, -_SOUND)


def _fit_real(rows: Sequence[Row], weights: Sequence[float]) -> _Reader:
    """To real prompts alone, the quick and the long ones counting the same."""
    kept = [(row, weight) for row, weight in zip(rows, weights, strict=True) if weight and row.kind == MEANING]
    sums = [math.fsum(weight for row, weight in kept if row.label == label) for label in (0.0, 1.0)]
    if not all(sums):
        return _Reader(_NOTHING.table, _NOTHING.marks, 0.0, 0.0)
    total = sum(sums) / _KIND_WEIGHTS[MEANING]
    even = [weight * total / (2 * sums[int(row.label)]) for row, weight in kept]
    return _fit([row.features for row, _ in kept], [row.label for row, _ in kept], even)


def _fit_offer(rows: Sequence[Row], replies: Sequence[Reply]) -> _Reader:
    """To offers that were taken up, and to written asks, which name the same work. Where it is done, nothing is offered."""
    taken = [reply for reply in replies if reply.accepts and reply.is_long is not None]
    asks = [row for row in rows if row.kind == ASKS and row.item.is_clear]
    labels = [*(float(bool(reply.is_long)) for reply in taken), *(row.label for row in asks)]
    if not taken or len(set(labels)) < 2:
        return _NOTHING
    offered = [read_offer(reply.said, reply.text).features for reply in taken]
    done = [*filter(None, dict.fromkeys(report_done(row.item.prompt, row.lang) for row in asks))]
    reports = [fold_places(read_features.__wrapped__(text)) for text in done]
    weights = [_OFFER_WEIGHT] * len(taken) + [_ASK_AS_OFFER_WEIGHT] * len(asks) + [_REPORT_WEIGHT] * len(done)
    return _fit([*offered, *(fold_places(row.features) for row in asks), *reports], [*labels, *([0.0] * len(done))], weights)


def _fit_vague(rows: Sequence[Row], replies: Sequence[Reply]) -> _Reader:
    """Words that only point back, against all that ask for something of their own, and replies that take up no offer."""
    vague = [row.features for row in rows if row.kind == VAGUE]
    asks = [row for row in rows if row.kind in (ASKS, MEANING) and row.item.is_clear and row.features.is_short]
    if not vague or not asks:
        return _NOTHING
    answers = [reply for reply in replies if reply.accepts is not None]
    declined = [row.features for row in rows if row.kind == DECLINED]
    accepted = sum(bool(reply.accepts) for reply in answers)
    even = _ASK_AGAINST_VAGUE * (len(vague) + accepted) / math.fsum(row.weight for row in asks)
    return _fit(
        [*vague, *declined, *(row.features for row in asks), *(reply.read() for reply in answers)],
        [*([1.0] * len(vague)), *([0.0] * (len(declined) + len(asks))), *(float(bool(reply.accepts)) for reply in answers)],
        [*([1.0] * (len(vague) + len(declined))), *(row.weight * even for row in asks), *([_ANSWER_WEIGHT] * len(answers))],
    )


def _fit(
    features: Sequence[Features],
    labels: Sequence[float],
    weights: Sequence[float],
    own: Sequence[float] | None = None,
    own_share: float = 0.0,
) -> _Reader:
    """A logistic regression; with `own`, rows that have a second set of columns of that size, of which a share is kept."""
    if len(set(labels)) < 2:
        return _Reader(_NOTHING.table, _NOTHING.marks, 0.0, 0.0)
    learn, sparse, numpy = load_libraries()
    values, columns, starts = _columns_of(features, numpy)
    used, columns = numpy.unique(columns, return_inverse=True)  # most places of a table are empty
    matrix = sparse.csr_matrix((values, columns, starts), shape=(len(features), len(used)))
    if own is not None:
        matrix = sparse.hstack([matrix, sparse.diags(numpy.array(own)) @ matrix]).tocsr()
    model = learn.LogisticRegression(C=1.0, max_iter=300, tol=1e-3, solver="liblinear", intercept_scaling=10.0, random_state=0)
    model.fit(matrix, labels, sample_weight=weights)
    found, fitted = numpy.zeros(_COLUMNS), model.coef_[0]
    found[used] = fitted[: len(used)]
    if own is not None:
        found[used] += own_share * max(own) * fitted[len(used) :]
    pieces = found[:TABLE_SIZE] * _PIECES_SCALE
    largest = numpy.abs(pieces[pieces != 0])
    most = float(numpy.quantile(largest, _LONGEST_WEIGHT)) if len(largest) else 0.0
    return _Reader(
        numpy.clip(pieces, -most, most).tolist(),
        (found[TABLE_SIZE:-1] * _MARKS_SCALE).tolist(),
        float(found[-1] * _LENGTH_SCALE),
        float(model.intercept_[0]),
    )


def _columns_of(rows: Sequence[Features], numpy: Any) -> tuple[Any, Any, Any]:
    """Values, columns and starts of a sparse matrix: the pieces, one column for each step of a mark, and the length."""
    columns: list[int] = []
    values: list[float] = []
    starts = [0]
    for features in rows:
        columns += features.pieces
        values += [_PIECES_SCALE / math.sqrt(len(features.pieces) or 1)] * len(features.pieces)
        columns += [TABLE_SIZE + start + step for start, step in zip(_MARK_STARTS, features.marks, strict=False)]
        values += [_MARKS_SCALE] * len(features.marks)
        columns.append(_COLUMNS - 1)
        values.append(_LENGTH_SCALE * features.length)
        starts.append(len(columns))
    return numpy.array(values), numpy.array(columns), numpy.array(starts)


def _add_up(row: Row, odds: tuple[float, float]) -> float:
    words, real = odds
    return words + (_LATER_SHARE if row.item.prior_turns else _FIRST_SHARE) * real


def _find_line(rows: Sequence[Row], odds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope and the start that make the readers' sum honest on real prompts. Later turns have their own (`fit_sum`)."""
    found = [
        (words + _FIRST_SHARE * real, row.label)
        for row, (words, real) in zip(rows, odds, strict=True)
        if row.kind == MEANING and row.item.is_clear
    ]
    if len({label for _, label in found}) < 2:
        return 1.0, 0.0
    learn, _, numpy = load_libraries()
    model = learn.LogisticRegression(C=1e6).fit(numpy.array([[value] for value, _ in found]), [label for _, label in found])
    return round(float(model.coef_[0][0]), 4), round(float(model.intercept_[0]), 4)


def weigh_rows(rows: Sequence[Row]) -> list[float]:
    """What each row counts.

    What is neither clearly quick nor clearly long is left out, and so is the work that followed where it is known what the
    words meant.
    """
    meant = {row.item.id for row in rows if row.kind == MEANING}
    sizes = Counter(row.item.repo for row in rows if (row.kind == MEANING or row.is_project) and row.item.is_clear)
    weights = []
    for row in rows:
        item = row.item
        if not item.is_clear or not row.features.pieces or (not item.kind and item.id and item.id in meant):
            weights.append(0.0)
            continue
        weight = row.weight * _KIND_WEIGHTS.get(item.kind, _SESSION_WEIGHT if row.is_session else _OTHER_WEIGHT)
        if (item.kind == MEANING or row.is_project) and sizes[item.repo] > _LARGE_REPO:
            weight *= math.sqrt(_LARGE_REPO / sizes[item.repo])
        weights.append(weight)
    return weights


def divide(groups: Sequence[str], parts: int = FOLDS) -> list[int]:
    """A fold for each row, all rows of a group in one: the largest go first, each to the emptiest fold."""
    filled = [0] * parts
    homes: dict[str, int] = {}
    sizes: Mapping[str, int] = Counter(groups)
    for group, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        home = filled.index(min(filled))
        homes[group] = home
        filled[home] += size
    return [homes[group] for group in groups]
