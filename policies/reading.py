"""The trained weights: byte tables for words, short lists for shape.

Four readers share the features: the task's size in a first turn, in a later one, whether the words complain about the last
turn, and whether they only point back at it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import blake2b
from operator import add, getitem, itemgetter
from pathlib import Path

import orjson

from router.contract.features import MARKS, TABLE_SIZE, Features
from router.contract.request import JsonObject

FORMAT = 3
TABLES = ("first", "later", "wrong", "vague")
_MIDDLE = 128
"""A weight is a byte's distance from this, times `unit`."""
_MAX_HEADER_BYTES = 65_536


class BadWeights(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Table:
    """One reader's weights."""

    start: float
    unit: float
    length: float
    marks: tuple[tuple[float, ...], ...]
    table: bytes

    def read(self, features: Features) -> float:
        """Log-odds. Many words say no more than their average times the root of their number."""
        # `reduce`, since `sum` adds floats differently from Python 3.12 on: the odds must agree in every version.
        shape: float = reduce(add, map(getitem, self.marks, features.marks), self.start + self.length * features.length)
        return shape + self.weigh(features.pieces)

    def weigh(self, pieces: Sequence[int]) -> float:
        count = len(pieces)
        if count < 2:
            return self.unit * (self.table[pieces[0]] - _MIDDLE) if count else 0.0
        # itemgetter is twice as fast as a loop
        total: int = sum(itemgetter(*pieces)(self.table)) - _MIDDLE * count
        return self.unit * total / math.sqrt(count)


@dataclass(frozen=True, slots=True)
class Weights:
    """Fitted by the lab, read by the policy."""

    first: Table
    later: Table
    wrong: Table
    vague: Table
    wrong_above: float
    """Above this, words are a complaint: set so that few other remarks pass for one."""
    fingerprint: str
    trained_on: JsonObject

    def read_size(self, features: Features, *, is_later: bool) -> float:
        return (self.later if is_later else self.first).read(features)

    def read_shares(self, features: Features, *, is_later: bool) -> dict[str, float]:
        """How far each concept moved the odds; the furthest if it was named more than once."""
        table = self.later if is_later else self.first
        weights, unit = table.table, table.unit / math.sqrt(len(features.pieces) or 1)
        furthest: dict[str, int] = {}
        for phrase, own, pair in features.concepts:
            total = weights[pair] - _MIDDLE * (len(own) + 1)
            for piece in own:  # few: quicker than a map
                total += weights[piece]
            if abs(total) > abs(furthest.get(phrase, 0)):
                furthest[phrase] = total
        return {phrase: unit * total for phrase, total in furthest.items()}


def load_weights(path: str) -> Weights:
    """Raises `BadWeights`."""
    try:
        return read_weights(Path(path).read_bytes())
    except OSError as error:
        raise BadWeights(f"{path}: {error.strerror}") from error
    except BadWeights as error:
        raise BadWeights(f"{path}: {error}") from error


def written_at(path: str) -> int:
    """Modification time; 0 for shipped weights and missing files."""
    try:
        return Path(path).stat().st_mtime_ns if path else 0
    except OSError:
        return 0


def read_weights(content: bytes) -> Weights:
    """Parse a file: one line of JSON, then the tables. Raises `BadWeights`."""
    line, newline, body = content.partition(b"\n")
    if not newline or len(line) > _MAX_HEADER_BYTES:
        raise BadWeights("not a weights file: the first line is not a header")
    try:
        header = orjson.loads(line)
        if header["format"] != FORMAT:
            raise BadWeights(f"incompatible weights file: format {header['format']}, and this version reads format {FORMAT}")
        tables = [_read_table(header[name], body[at * TABLE_SIZE : (at + 1) * TABLE_SIZE]) for at, name in enumerate(TABLES)]
        first, later, wrong, vague = tables
        fingerprint = blake2b(content, digest_size=6).hexdigest()
        weights = Weights(first, later, wrong, vague, float(header["wrong_above"]), fingerprint, header["trained_on"])
    except BadWeights:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadWeights(f"incompatible weights file: {type(error).__name__} {error}") from error
    numbers = [weights.wrong_above]
    for table in tables:
        numbers += (table.start, table.unit, table.length, *sum(table.marks, ()))
    if not all(map(math.isfinite, numbers)):
        raise BadWeights("damaged weights file: a weight is not a finite number")
    if len(body) != len(TABLES) * TABLE_SIZE:
        raise BadWeights(f"damaged weights file: tables of {len(body)} bytes instead of {len(TABLES) * TABLE_SIZE}")
    return weights


def _read_table(header: JsonObject, table: bytes) -> Table:
    start, unit, length = (_number(header, name) for name in ("start", "unit", "length"))
    marks = header["marks"]
    if not isinstance(marks, dict):
        raise BadWeights("incompatible weights file: marks are not named")
    return Table(start, unit, length, _read_steps(marks), table)


def _number(header: JsonObject, name: str) -> float:
    value = header[name]
    if not isinstance(value, (int, float)):
        raise BadWeights(f"incompatible weights file: {name} is not a number")
    return float(value)


def _read_steps(found: Mapping[str, object]) -> tuple[tuple[float, ...], ...]:
    read = []
    for name, edges in MARKS.items():
        steps = found[name]
        if not isinstance(steps, list) or len(steps) != len(edges) + 1:
            raise BadWeights("incompatible weights file: its lists have other lengths")
        read.append(tuple(map(float, steps)))
    return tuple(read)


def write_weights(header: JsonObject, tables: Mapping[str, tuple[JsonObject, Sequence[float]]]) -> bytes:
    """Each table has 255 steps between its largest weight and the opposite."""
    written, bodies = {**header}, []
    for name in TABLES:
        own, table = tables[name]
        unit = max(1e-9, max(map(abs, table)) / 127)
        written[name] = {**own, "unit": round(unit, 9)}
        bodies.append(bytes(_MIDDLE + round(weight / unit) for weight in table))
    return orjson.dumps({"format": FORMAT, **written}) + b"\n" + b"".join(bodies)
