"""How well decisions fit labelled data: None if the data cannot show a figure."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.lab.labelled import Item

_FIRST_SETS = ("real prompts", "agent_session")
"""Shown first, since routers see these."""


class Judged(NamedTuple):
    """A clear item with its score and tier."""

    item: Item
    score: float
    is_fast: bool


class Figures(NamedTuple):
    items: int
    auroc: float | None
    quick_recall: float | None
    """Share of quick edits that went to fast; then of long tasks that went to deep."""
    long_recall: float | None
    fast_share: float


def share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def auroc(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Chance that a long item scores above a quick one; ties count half. None if a kind is absent."""
    ordered = sorted(pairs)
    long = sum(is_long for _, is_long in ordered)
    quick = len(ordered) - long
    if not long or not quick:
        return None
    ranks = 0.0
    begin = 0
    while begin < len(ordered):
        end = begin
        while end < len(ordered) and ordered[end][0] == ordered[begin][0]:
            end += 1
        ranks += sum(is_long for _, is_long in ordered[begin:end]) * (begin + end + 1) / 2
        begin = end
    return (ranks - long * (long + 1) / 2) / (long * quick)


def measure(judged: Sequence[Judged]) -> Figures:
    """Figures of a non-empty set."""
    long = [entry for entry in judged if entry.item.is_long]
    quick = [entry for entry in judged if not entry.item.is_long]
    return Figures(
        items=len(judged),
        auroc=auroc([(entry.score, entry.item.is_long) for entry in judged]),
        quick_recall=share(sum(entry.is_fast for entry in quick), len(quick)),
        long_recall=share(sum(not entry.is_fast for entry in long), len(long)),
        fast_share=sum(entry.is_fast for entry in judged) / len(judged),
    )


def split_by_set(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Real prompts, agent sessions, each other set, then all if several."""
    sets: dict[str, list[Judged]] = {}
    for entry in sorted(judged, key=lambda entry: _order(entry.item.set_name)):
        sets.setdefault(entry.item.set_name, []).append(entry)
    return {**sets, "all": list(judged)} if len(sets) > 1 else sets


def _order(name: str) -> tuple[int, str]:
    return next((index for index, start in enumerate(_FIRST_SETS) if name.startswith(start)), len(_FIRST_SETS)), name
