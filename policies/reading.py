"""The trained weights: byte tables for words, short lists for shape.

Four readers share the features: the task's size in a first turn, in a later one, whether the words only point back at the last
turn, and the size of what was offered. A later turn's odds are one sum (`COLUMNS`) of what these say and of what came before:
the last ask, and the assistant's offer.
"""

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from hashlib import blake2b
from itertools import accumulate
from operator import add, getitem, itemgetter, mul
from pathlib import Path

import orjson
from msgspec import Struct

from router.contract.features import MARKS, OFFER_SIZE, TABLE_SIZE, Features, Offer
from router.contract.request import JsonObject

FORMAT = 5
TABLES: Mapping[str, int] = {**dict.fromkeys(("first", "later", "vague"), TABLE_SIZE), "offer": OFFER_SIZE}
"""Tables in the order of the file, and their bytes."""
MIDDLE = 128
"""A weight is a byte's distance from this, times `unit`."""
_MAX_HEADER_BYTES = 65_536
COLUMNS: Mapping[str, str] = {
    "words": "what you ask",
    "ask_before": "what you asked before",
    "reply_words": "what the reply says",
    "offer": "what was offered",
    "offered_number": "how many places the offer names",
}
"""Columns of a later turn's sum, with the phrase for each. All but the first count as far as the words point back: the
second at the last ask where no offer is known, the others at an offer."""


class BadWeights(ValueError):
    pass


class Table(Struct, frozen=True):
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
            return self.unit * (self.table[pieces[0]] - MIDDLE) if count else 0.0
        # itemgetter is twice as fast as a loop
        total: int = sum(itemgetter(*pieces)(self.table)) - MIDDLE * count
        return self.unit * total / math.sqrt(count)


class Sum(Struct, frozen=True):
    """A later turn's odds: a weight for each column."""

    start: float
    weights: tuple[float, ...]

    def read(self, values: Sequence[float]) -> float:
        return reduce(add, map(mul, self.weights, values), self.start)

    def read_shares(self, values: Sequence[float]) -> dict[str, float]:
        """What each column adds."""
        return dict(zip(COLUMNS, map(mul, self.weights, values), strict=True))


class Weights(Struct, frozen=True):
    """Fitted by the lab, read by the policy."""

    first: Table
    later: Table
    vague: Table
    offer: Table
    turn: Sum
    fingerprint: str
    trained_on: JsonObject

    def read_size(self, features: Features, *, is_later: bool) -> float:
        return (self.later if is_later else self.first).read(features)

    def read_pointing(self, features: Features) -> float:
        """The chance that words only point back at what came before."""
        return _sigmoid(self.vague.read(features)) if features.is_short else 0.0

    def read_values(
        self, features: Features, pointing: float, offer: Offer | None, before: float | None = None
    ) -> tuple[float, ...]:
        """A later turn's columns. `before` is the size of the last ask."""
        size = self.later.read(features)
        if offer is None:
            return (size, 0.0 if before is None else pointing * before, 0.0, 0.0, 0.0)
        own, said = (1.0 - pointing) * size, pointing * size
        return (own, 0.0, said, pointing * self.offer.read(offer.features), pointing * math.log1p(offer.number))

    def read_shares(self, features: Features, *, is_later: bool) -> dict[str, float]:
        """How far each concept moved the odds; the furthest if it was named more than once."""
        table = self.later if is_later else self.first
        weights, unit = table.table, table.unit / math.sqrt(len(features.pieces) or 1)
        furthest: dict[str, int] = {}
        for phrase, own, pair in features.concepts:
            total = weights[pair] - MIDDLE
            for place in own:  # plain: summing with `map` takes three times as long for two or three places
                total += weights[place] - MIDDLE
            if (known := furthest.get(phrase)) is None or abs(total) > abs(known):
                furthest[phrase] = total
        return {phrase: unit * total for phrase, total in furthest.items()}


def _sigmoid(odds: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))


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
        ends = [*accumulate(TABLES.values(), initial=0)]
        tables = [_read_table(header[name], body[at:end]) for name, at, end in zip(TABLES, ends, ends[1:], strict=False)]
        first, later, vague, offer = tables
        fingerprint = blake2b(content, digest_size=6).hexdigest()
        turn = _read_sum(header["turn"])
        weights = Weights(first, later, vague, offer, turn, fingerprint, header["trained_on"])
    except BadWeights:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadWeights(f"incompatible weights file: {type(error).__name__} {error}") from error
    numbers = [weights.turn.start, *weights.turn.weights]
    for table in tables:
        numbers += (table.start, table.unit, table.length, *sum(table.marks, ()))
    if not all(map(math.isfinite, numbers)):
        raise BadWeights("damaged weights file: a weight is not a finite number")
    if len(body) != ends[-1]:
        raise BadWeights(f"damaged weights file: tables of {len(body)} bytes instead of {ends[-1]}")
    return weights


def _read_table(header: JsonObject, table: bytes) -> Table:
    start, unit, length = (_number(header, name) for name in ("start", "unit", "length"))
    marks = header["marks"]
    if not isinstance(marks, dict):
        raise BadWeights("incompatible weights file: marks are not named")
    return Table(start, unit, length, _read_steps(marks), table)


def _read_sum(header: JsonObject) -> Sum:
    columns = header["columns"]
    if not isinstance(columns, dict):
        raise BadWeights("incompatible weights file: columns are not named")
    return Sum(_number(header, "start"), tuple(_number(columns, name) for name in COLUMNS))


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
        bodies.append(bytes(MIDDLE + round(weight / unit) for weight in table))
    return orjson.dumps({"format": FORMAT, **written}) + b"\n" + b"".join(bodies)
