"""A caller's own line: the offset that explains what their turns took, beyond what was read from the words."""

import math
from collections.abc import Iterable, Sequence

from router.contract.economics import Economics, Offset
from router.past.marks import find_root, sigmoid
from router.past.work import SizedTurn

_PRIOR_TURNS = 25.0
"""So many turns count half."""
_MAX_LOG_ODDS = 0.25
"""Moves the line between the tiers from 22 % to between 18 and 27 %. More would go by who asks, not by what is asked."""
_LEAST_INFORMATION = 0.1
"""Of a turn about an offset, p(1-p). Clear turns that went as expected say little, however many they are."""


def learn_offsets(turns: Iterable[SizedTurn], economics: Economics) -> dict[str, Offset]:
    """By caller; each learns from their own turns alone."""
    by_caller: dict[str, list[SizedTurn]] = {}
    for turn in turns:
        by_caller.setdefault(turn.caller, []).append(turn)
    start = economics.prior + economics.personal_log_odds
    fitted = {caller: Offset(_fit(own, start), len(own)) for caller, own in by_caller.items()}
    return {caller: offset for caller, offset in fitted.items() if offset.log_odds}


def _fit(turns: Sequence[SizedTurn], start: float) -> float:
    read = [(start + turn.evidence, turn.is_long) for turn in turns]
    chances = [sigmoid(odds) for odds, _ in read]
    information = math.fsum(chance * (1 - chance) for chance in chances) / len(chances)
    pull = _PRIOR_TURNS * max(information, _LEAST_INFORMATION)

    def slope(offset: float) -> float:
        return math.fsum(sigmoid(odds + offset) - is_long for odds, is_long in read) + pull * offset

    return round(find_root(slope, _MAX_LOG_ODDS), 2) + 0.0
