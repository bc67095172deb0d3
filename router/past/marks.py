"""Marked turns → the personal table: kinds of similar asks, and how far each must move to land where it was marked.

A mark concerns only similar asks: it is matched by words that few other turns have, and a less similar ask moves less.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from router.contract.personal import MAX_LOG_ODDS, Kind, PersonalTable, read_personal, write_personal
from router.past.cases import Sample
from router.sense.features import read_features
from router.sessions.turns import is_follow_up

_ALIKE = 0.45
"""Least similarity of marks of one kind."""
_PULL = 0.5
"""Pull towards zero, in turns of log-odds: one mark, which counts as ten turns, carries its ask just over the line."""
_BEYOND, _MORE_BEYOND = 1.5, 0.5
"""How far beyond the line one mark carries its ask, and each doubling of marks further: similar asks follow."""
MAX_KINDS = 256
"""In a table; the oldest are left out."""
_MAX_PLACES, _MAX_COMMON = 256, 400
_LITTLE = 0.15
_FEW_TURNS = 10
_COMMON_WORDS = """
    a an the this that these those it its i me my we us our you your he she they them their is are was be been do does did done
    have has had can could should would will shall may might must and or but if so then than as at by for from in into of off on
    onto out over to up with without about after all also any each every here how just like more most need no not now only other
    please pls some still such there too very via want what when where which who why yes ok okay thanks thank hi hello hey
    add change check create fix get give go help let look make put run see set show tell update use write
    app bug code class error file files folder function issue line lines page project repo repository test tests thing
""".split()


@dataclass(frozen=True, slots=True)
class Taught:
    """A table, and its effect on marked turns and on others with known words."""

    table: PersonalTable
    marks: int
    requests: Mapping[str, tuple[int, ...]]
    """The marked requests that were fitted, and the places of their words."""
    right_before: int
    right_after: int
    others: int
    others_moved: int


def places_of(words: str) -> tuple[int, ...]:
    """Indexes of words in the weights; empty if they name no task."""
    features = read_features(words) if words and not is_follow_up(words) else None
    return features.pieces if features is not None and features.has_task else ()


def fit_table(turns: Sequence[Sample], room_of: Callable[[Sample], float], weights: str) -> PersonalTable:
    """Fit the table. `room_of` is a turn's distance above the line between the tiers without it, in log-odds."""
    marks = sorted((turn for turn in turns if turn.is_marked), key=lambda turn: turn.at)
    if not marks:
        return PersonalTable(weights)
    others = [turn for turn in turns if not turn.is_marked]
    common = dict.fromkeys((place for word in _COMMON_WORDS for place in read_features(word).pieces), _LITTLE)
    alone = PersonalTable(weights, tuple(_kind_of([mark], common) for mark in marks[-MAX_KINDS:]), common)
    # An ask similar to a marked one does not show how common its words are elsewhere.
    common = _weigh_common([turn for turn in others if alone.find_nearest(turn.places) is None], common)
    groups = _group(marks, common)
    table = PersonalTable(weights, tuple(_kind_of(group, common) for group in groups), common)
    kinds = [
        structs.replace(kind, log_odds=log_odds)
        for kind, group, log_odds in zip(table.kinds, groups, _fit(table, turns, room_of), strict=True)
        if log_odds and (log_odds > 0) is group[0].is_long
    ]
    return PersonalTable(weights, tuple(kinds), common)


@dataclass(frozen=True, slots=True)
class Merged:
    """A table with the kinds of an earlier one, and how many kinds became of which."""

    table: PersonalTable
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    kept: int = 0
    """From the earlier table: their marks are no longer known."""
    dropped: int = 0
    """From the earlier table: their marks were taken back, or newer ones say otherwise."""


def merge(old: PersonalTable, new: PersonalTable, known: Collection[str], removed: Collection[str], now: float) -> Merged:
    """Keep the kinds of a table whose marks are in none of `known`, which were fitted now, and `removed`."""
    new = read_personal(write_personal(new))  # rounded, as the old one is
    earlier = [(kind, _find_successor(kind, new)) for kind in old.kinds if old.hashing == new.hashing]
    kinds, counts = [], Counter[str]()
    for number, kind in enumerate(new.kinds):
        before = max((one for one, next_one in earlier if next_one == number), key=lambda one: one.at, default=None)
        is_same_lesson = before is not None and set(before.requests) == set(kind.requests)
        kinds.append(structs.replace(kind, at=before.at if is_same_lesson and before is not None else now))
        counts["added" if before is None else "unchanged" if kinds[-1] == before else "changed"] += 1
    for kind, successor in earlier:
        left = tuple(name for name in kind.requests if name not in known and name not in removed)
        if successor is not None and not left:
            continue  # fitted again
        is_kept = bool(left or not kind.requests) and not _is_contradicted(kind, new)
        counts["kept" if is_kept else "dropped"] += 1
        if is_kept:
            kinds.append(structs.replace(kind, requests=left, marks=len(left) or kind.marks))
    counts["dropped"] += len(old.kinds) - len(earlier)
    return Merged(replace(new, kinds=tuple(kinds[:MAX_KINDS])), **counts)


def _find_successor(kind: Kind, table: PersonalTable) -> int | None:
    """The new kind with most of its marks; if it names none, one as large and much like it."""
    marks = set(kind.requests)
    shared = {number: len(marks.intersection(one.requests)) for number, one in enumerate(table.kinds)}
    if marks:
        return max((number for number, count in shared.items() if count), key=shared.__getitem__, default=None)
    alike = {
        number: likeness
        for number, likeness in table.likeness(tuple(kind.places)).items()
        if likeness >= _ALIKE and _is_same_way(table.kinds[number], kind) and table.kinds[number].marks >= kind.marks
    }
    return max(alike, key=alike.__getitem__, default=None)


def _is_contradicted(kind: Kind, table: PersonalTable) -> bool:
    likeness = table.likeness(tuple(kind.places))
    return any(alike >= _ALIKE and not _is_same_way(table.kinds[number], kind) for number, alike in likeness.items())


def _is_same_way(one: Kind, other: Kind) -> bool:
    return (one.log_odds > 0) is (other.log_odds > 0)


def _weigh_common(turns: Sequence[Sample], known: dict[int, float]) -> dict[int, float]:
    """Weight of each place by its share of the person's other turns: half at one in ten."""
    seen = Counter(place for turn in turns for place in turn.places)
    most = {place: 1 / (1 + 10 * count / (len(turns) + _FEW_TURNS)) for place, count in seen.most_common(_MAX_COMMON)}
    return known | {place: min(says, known.get(place, 1.0)) for place, says in most.items() if says < 0.9}


def _group(marks: Sequence[Sample], common: dict[int, float]) -> list[list[Sample]]:
    groups: list[list[Sample]] = []
    kinds: list[Kind] = []
    for mark in marks:
        table = PersonalTable("", tuple(kinds), common)
        near = [
            (alike, number)
            for number, alike in table.likeness(mark.places).items()
            if alike >= _ALIKE and groups[number][0].is_long is mark.is_long
        ]
        if near:
            number = max(near)[1]
            groups[number].append(mark)
            kinds[number] = _kind_of(groups[number], common)
        else:
            groups.append([mark])
            kinds.append(_kind_of([mark], common))
            del groups[:-MAX_KINDS], kinds[:-MAX_KINDS]
    return groups


def _kind_of(group: Sequence[Sample], common: dict[int, float]) -> Kind:
    """Places shared by most marks weigh most; those in nearly every ask, little."""
    shares = Counter(place for mark in group for place in mark.places)
    says = {place: common.get(place, 1.0) * count / len(group) for place, count in shares.items()}
    strongest = sorted(says.items(), key=lambda item: (-item[1], item[0]))[:_MAX_PLACES]
    callers = sorted({mark.caller for mark in group if mark.caller})
    return Kind(1.0, dict(strongest), len(group), tuple(callers), tuple(mark.request for mark in group if mark.request))


def _fit(table: PersonalTable, turns: Iterable[Sample], room_of: Callable[[Sample], float]) -> list[float]:
    felt: list[list[tuple[Sample, float, float]]] = [[] for _ in table.kinds]
    for turn in turns:
        nearest = table.find_nearest(turn.places)
        if nearest is not None:
            felt[nearest[0]].append((turn, room_of(turn), nearest[1]))
    return [_fit_kind(members) for members in felt]


def _fit_kind(members: Sequence[tuple[Sample, float, float]]) -> float:
    def slope(log_odds: float) -> float:
        wrong = math.fsum(
            turn.weight * share * (sigmoid(room + share * log_odds) - turn.is_long) for turn, room, share in members
        )
        return wrong + _PULL * log_odds

    marked = [abs(room) for turn, room, _ in members if turn.is_marked]
    beyond = _BEYOND + _MORE_BEYOND * math.log2(max(1, len(marked)))
    return find_root(slope, min(MAX_LOG_ODDS, max(marked, default=0.0) + beyond))


def find_root(slope: Callable[[float], float], bound: float) -> float:
    """The minimum of a convex loss within the bound on either side, by its slope."""
    low, high = -bound, bound
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return round((low + high) / 2, 3) + 0.0


def sigmoid(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, log_odds))))
