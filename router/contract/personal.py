"""The personal table, learned from `tandem wrong`: kinds of asks, by the places of their words.

It holds for as long as words are hashed into places in one way (`HASHING`), whatever the weights of the reading.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from msgspec import Struct

from router.contract.features import HASHING, TABLE_SIZE
from router.contract.request import JsonObject

FORMAT = 1
MARKED = "you marked turns like this one"
"""Beginning of the table's reason; the tier follows."""
MAX_LOG_ODDS = 6.0
_MAX_BYTES = 1 << 22
_FIRST_HASHING = 1
"""That of tables that do not name it."""
_KIN, _SAME = 0.3, 0.6
"""Likeness from which a kind counts at all, and in full."""
_OF_KIND = 0.7
"""Exponent of the kind's share that the ask has; the ask's share that the kind has gets the rest. People add a greeting or a
reason to an ask."""


class BadTable(ValueError):
    pass


class TableUnreadable(BadTable):
    """There may be a table that a later try can read."""


class Kind(Struct, frozen=True):
    """Similar asks: what each of their places says (0 to 1), and the log-odds they add."""

    log_odds: float
    places: Mapping[int, float]
    marks: int = 1
    callers: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    """Ids of the marked requests; none in a table of an older Tandem."""
    at: float = 0.0
    """When `tandem tune --apply` last learned a mark of it, in seconds since 1970; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class PersonalTable:
    """Kinds of asks, and how much other places say (1 if unknown)."""

    weights: str
    """Fingerprint of the weights that the log-odds were fitted to."""
    kinds: tuple[Kind, ...] = ()
    common: Mapping[int, float] = field(default_factory=dict)
    hashing: int = HASHING
    _index: Mapping[int, list[tuple[int, float]]] = field(init=False, repr=False, compare=False)
    _totals: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index: dict[int, list[tuple[int, float]]] = {}
        for number, kind in enumerate(self.kinds):
            for place, says in kind.places.items():
                index.setdefault(place, []).append((number, says))
        object.__setattr__(self, "_index", index)
        object.__setattr__(self, "_totals", tuple(math.fsum(kind.places.values()) for kind in self.kinds))

    def weigh(self, pieces: Sequence[int]) -> float:
        """Log-odds of the nearest kind, by likeness."""
        nearest = self.find_nearest(pieces)
        return 0.0 if nearest is None else self.kinds[nearest[0]].log_odds * nearest[1]

    def find_nearest(self, pieces: Sequence[int]) -> tuple[int, float] | None:
        """The nearest kind, and how much it counts (up to 1)."""
        found = self.likeness(pieces)
        number = max(found, key=found.__getitem__, default=-1)
        if number < 0 or found[number] <= _KIN:
            return None
        return number, min(1.0, (found[number] - _KIN) / (_SAME - _KIN))

    def likeness(self, pieces: Sequence[int]) -> dict[int, float]:
        """Likeness (0 to 1) to each kind that shares a place with the ask."""
        index, common = self._index, self.common
        shared: dict[int, float] = {}
        said: dict[int, float] = {}
        for piece in pieces:
            for number, says in index.get(piece, ()):
                shared[number] = shared.get(number, 0.0) + says
                said[number] = said.get(number, 0.0) + common.get(piece, 1.0)
        if not shared:
            return {}
        whole = math.fsum(common.get(piece, 1.0) for piece in pieces)
        found = {}
        for number, both in shared.items():
            rest = max(0.0, whole - said[number])
            found[number] = (
                (both / self._totals[number]) ** _OF_KIND * (both / (both + rest)) ** (1 - _OF_KIND) if both else 0.0
            )
        return found


def load_personal(path: str) -> PersonalTable | None:
    """None without a file. Raises `BadTable`: `TableUnreadable` also where its folder, or the target of a link, is missing."""
    file = Path(path)
    try:
        content = file.read_bytes()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and file.parent.is_dir() and not file.is_symlink():
            return None
        raise TableUnreadable(f"{path}: {error.strerror}") from error
    try:
        return read_personal(content)
    except BadTable as error:
        raise BadTable(f"{path}: {error}") from error


def read_personal(content: bytes) -> PersonalTable:
    """Raises `BadTable`."""
    if len(content) > _MAX_BYTES:
        raise BadTable(f"a personal table has at most {_MAX_BYTES} bytes")
    try:
        told = orjson.loads(content)
        if told["format"] != FORMAT:
            raise BadTable(f"a personal table of format {told['format']}, and this version reads format {FORMAT}")
        kinds = tuple(
            Kind(
                _number(kind["log_odds"], MAX_LOG_ODDS),
                _places(kind["places"]),
                int(kind["marks"]),
                tuple(kind["callers"]),
                tuple(map(str, kind.get("requests", ()))),
                float(kind.get("at", 0.0)),
            )
            for kind in told["kinds"]
        )
        return PersonalTable(str(told["weights"]), kinds, _places(told["common"]), int(told.get("hashing", _FIRST_HASHING)))
    except BadTable:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadTable(f"not a personal table: {type(error).__name__} {error}") from error


def write_personal(table: PersonalTable) -> bytes:
    kinds: list[JsonObject] = [
        {
            "log_odds": kind.log_odds,
            "marks": kind.marks,
            "callers": list(kind.callers),
            "requests": list(kind.requests),
            "at": round(kind.at, 3),
            "places": _plain(kind.places),
        }
        for kind in table.kinds
    ]
    told = {
        "format": FORMAT,
        "hashing": table.hashing,
        "weights": table.weights,
        "kinds": kinds,
        "common": _plain(table.common),
    }
    return orjson.dumps(told) + b"\n"


def _plain(places: Mapping[int, float]) -> JsonObject:
    return {str(place): round(says, 3) for place, says in sorted(places.items())}


def _places(found: Mapping[str, float]) -> dict[int, float]:
    places = {int(place): _number(says, 1.0) for place, says in found.items()}
    if any(not 0 <= place < TABLE_SIZE or says < 0 for place, says in places.items()):
        raise BadTable("not a personal table: a place outside the table of weights")
    return places


def _number(value: float, most: float) -> float:
    if not abs(number := float(value)) <= most:
        raise BadTable(f"not a personal table: {value} is beyond {most:g}")
    return number
