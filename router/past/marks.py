"""Marked turns → the personal table: kinds of similar asks, and how far each must move to land where it was marked.

A mark concerns only similar asks: it is matched by words that few other turns have, and a less similar ask moves less.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from router.contract.personal import MAX_LOG_ODDS, Kind, PersonalTable
from router.past.cases import Sample
from router.sense.features import read_features
from router.sessions.turns import is_follow_up

_ALIKE = 0.45
"""Least similarity of marks of one kind."""
_PULL = 0.5
"""Pull towards zero, in turns of log-odds: one mark, which counts as ten turns, carries its ask just over the line."""
_BEYOND, _MORE_BEYOND = 1.5, 0.5
"""How far beyond the line one mark carries its ask, and each doubling of marks further: similar asks follow."""
_MAX_KINDS, _MAX_PLACES, _MAX_COMMON = 64, 256, 400
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
    alone = PersonalTable(weights, tuple(_kind_of([mark], common) for mark in marks[-_MAX_KINDS:]), common)
    # An ask similar to a marked one does not show how common its words are elsewhere.
    common = _weigh_common([turn for turn in others if alone.find_nearest(turn.places) is None], common)
    groups = _group(marks, common)
    table = PersonalTable(weights, tuple(_kind_of(group, common) for group in groups), common)
    kinds = [
        Kind(log_odds, kind.places, kind.marks, kind.callers)
        for kind, group, log_odds in zip(table.kinds, groups, _fit(table, turns, room_of), strict=True)
        if log_odds and (log_odds > 0) is group[0].is_long
    ]
    return PersonalTable(weights, tuple(kinds), common)


def _weigh_common(turns: Sequence[Sample], known: dict[int, float]) -> dict[int, float]:
    """Weight of each place by its share of the person's other turns: half at one in ten."""
    seen = Counter(place for turn in turns for place in turn.places)
    most = {place: 1 / (1 + 10 * count / (len(turns) + _FEW_TURNS)) for place, count in seen.most_common(_MAX_COMMON)}
    return known | {place: min(says, known.get(place, 1.0)) for place, says in most.items() if says < 0.9}


def _group(marks: Sequence[Sample], common: dict[int, float]) -> list[list[Sample]]:
    groups: list[list[Sample]] = []
    for mark in marks:
        table = PersonalTable("", tuple(_kind_of(group, common) for group in groups), common)
        near = [
            (alike, number)
            for number, alike in table.likeness(mark.places).items()
            if alike >= _ALIKE and groups[number][0].is_long is mark.is_long
        ]
        if near:
            groups[max(near)[1]].append(mark)
        else:
            groups.append([mark])
            del groups[:-_MAX_KINDS]
    return groups


def _kind_of(group: Sequence[Sample], common: dict[int, float]) -> Kind:
    """Places shared by most marks weigh most; those in nearly every ask, little."""
    shares = Counter(place for mark in group for place in mark.places)
    says = {place: common.get(place, 1.0) * count / len(group) for place, count in shares.items()}
    strongest = sorted(says.items(), key=lambda item: (-item[1], item[0]))[:_MAX_PLACES]
    callers = sorted({mark.caller for mark in group if mark.caller})
    return Kind(1.0, dict(strongest), sum(1 for _ in group), tuple(callers))


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
