"""The trained weights: one flat table of bytes for words, a few short lists for shape and history, and how they add up."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import orjson

from router.contract.features import HISTORY, MARKS, TABLE_SIZE, Features
from router.contract.request import Json, JsonObject

FORMAT = 2
_MIDDLE = 128
"""A byte of the table is a weight of `unit` times its distance from this."""
_MAX_HEADER_BYTES = 65_536
_CLEAR_QUICK, _CLEAR_LONG = -1.6, 0.5
"""Log-odds at which words are clear enough that no history takes a turn across the score at which tiers usually change (0.3,
which is -0.85)."""
_HELD_QUICK, _HELD_LONG = -1.2, -0.3
"""How far history moves a turn that is just clear."""
_CLEAR_SLOPE, _OPEN_SLOPE = 0.5, 3.0
"""How that bound goes on: clearer words keep half of what is beyond, and history's room grows fast where words are open."""


class BadWeights(ValueError):
    """The weights file is damaged, or of another version."""


class Reading(NamedTuple):
    """What the weights make of a turn, as log-odds of a long task: the words, the history, and both together."""

    words: float
    history: float
    odds: float


@dataclass(frozen=True, slots=True)
class Weights:
    """Fitted by the lab, read by the policy."""

    start: float
    unit: float
    length: float
    marks: tuple[tuple[float, ...], ...]
    history_start: float
    history: tuple[tuple[float, ...], ...]
    table: bytes
    fingerprint: str
    trained_on: JsonObject

    def read(self, features: Features) -> Reading:
        """Log-odds of a long task."""
        words = self.read_words(features)
        history = self.read_history(features)
        return Reading(words, history, temper(words, history) if features.history else words)

    def read_words(self, features: Features) -> float:
        """What was typed alone. A text of many words says no more than its average word, times the root of their number."""
        total = self.start + self.length * features.length
        for steps, step in zip(self.marks, features.marks, strict=True):
            total += steps[step]
        return total + self.weigh(features.pieces)

    def read_history(self, features: Features) -> float:
        """What the finished turns alone would say; nothing before the first of them."""
        if not features.history:
            return 0.0
        total = self.history_start
        for steps, step in zip(self.history, features.history, strict=True):
            total += steps[step]
        return total

    def weigh(self, pieces: Sequence[int]) -> float:
        """What pieces of a text add to its odds, if they are all of it."""
        count = len(pieces)
        if count < 2:
            return self.unit * (self.table[pieces[0]] - _MIDDLE) if count else 0.0
        # itemgetter reads many places at twice the speed of a loop
        total: int = sum(itemgetter(*pieces)(self.table)) - _MIDDLE * count
        return self.unit * total / math.sqrt(count)

    def read_shares(self, features: Features) -> dict[str, float]:
        """How much the words that named each concept moved the odds, the furthest of those that named it more than once."""
        weigh, unit = self.table.__getitem__, self.unit / math.sqrt(len(features.pieces) or 1)
        shares: dict[str, float] = {}
        for phrase, pieces in features.concepts:
            share = unit * (sum(map(weigh, pieces)) - _MIDDLE * len(pieces))
            if abs(share) > abs(shares.get(phrase, 0.0)):
                shares[phrase] = share
        return shares


def temper(words: float, history: float) -> float:
    """Both together. History settles what the words leave open; it makes clear words less sure, and never turns them round."""
    odds = words + history
    if history > 0:
        beyond = words - _CLEAR_QUICK
        return max(words, min(odds, _HELD_QUICK + beyond * (_CLEAR_SLOPE if beyond < 0 else _OPEN_SLOPE)))
    beyond = words - _CLEAR_LONG
    return min(words, max(odds, _HELD_LONG + beyond * (_CLEAR_SLOPE if beyond > 0 else _OPEN_SLOPE)))


def load_weights(path: str) -> Weights:
    """The weights of a file. Raises `BadWeights`."""
    try:
        return read_weights(Path(path).read_bytes())
    except OSError as error:
        raise BadWeights(f"{path}: {error.strerror}") from error
    except BadWeights as error:
        raise BadWeights(f"{path}: {error}") from error


def read_weights(content: bytes) -> Weights:
    """Weights from the bytes of their file: one line of JSON, then the table. Raises `BadWeights`."""
    line, newline, table = content.partition(b"\n")
    if not newline or len(line) > _MAX_HEADER_BYTES:
        raise BadWeights("not a weights file: the first line is not a header")
    try:
        header = orjson.loads(line)
        if header["format"] != FORMAT:
            raise BadWeights(f"incompatible weights file: format {header['format']}, and this version reads format {FORMAT}")
        weights = Weights(
            start=float(header["start"]),
            unit=float(header["unit"]),
            length=float(header["length"]),
            marks=_read_steps(header["marks"], MARKS),
            history_start=float(header["history_start"]),
            history=_read_steps(header["history"], HISTORY),
            table=table,
            fingerprint=blake2b(content, digest_size=6).hexdigest(),
            trained_on=header["trained_on"],
        )
    except BadWeights:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadWeights(f"incompatible weights file: {type(error).__name__} {error}") from error
    numbers = (weights.start, weights.unit, weights.length, weights.history_start, *sum(weights.marks + weights.history, ()))
    if not all(map(math.isfinite, numbers)):
        raise BadWeights("damaged weights file: a weight is not a finite number")
    if len(table) != TABLE_SIZE:
        raise BadWeights(f"damaged weights file: a table of {len(table)} bytes instead of {TABLE_SIZE}")
    return weights


def _read_steps(found: Mapping[str, Sequence[float]], kinds: Mapping[str, Sequence[int]]) -> tuple[tuple[float, ...], ...]:
    """One list of weights for each kind: as many as it has steps."""
    read = tuple(tuple(map(float, found[name])) for name in kinds)
    if any(len(steps) != len(edges) + 1 for steps, edges in zip(read, kinds.values(), strict=True)):
        raise BadWeights("incompatible weights file: its lists have other lengths")
    return read


def write_weights(header: JsonObject, table: Sequence[float]) -> bytes:
    """The file's bytes. Weights are rounded to 255 steps between the largest and its opposite."""
    unit = max(1e-9, max(map(abs, table)) / 127)
    steps: Json = round(unit, 9)
    line = orjson.dumps({"format": FORMAT, **header, "unit": steps})
    return line + b"\n" + bytes(_MIDDLE + round(weight / unit) for weight in table)
