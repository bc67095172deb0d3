"""Putting the signals together, and knowing when an estimate of tokens is not good enough."""

from collections.abc import Mapping

from router.contract.request import RequestView
from router.contract.signals import Alias, Signals, Turn
from router.contract.target import Standing
from router.sense.tokens import estimate_prompt

_ROOM_TOKENS = 16_000
"""The most that a window policy is expected to keep free for the answer, when asking whether a limit is near."""


def read_signals(view: RequestView, turn: Turn, alias: Alias, standings: Mapping[str, Standing]) -> Signals:
    """Measure what policies may look at. Costs the same for a page and for a book."""
    return Signals(turn=turn, prompt=estimate_prompt(view), alias=alias, standings=standings, effort=view.effort)


def is_near_a_limit(signals: Signals) -> bool:
    """Whether the band of the estimate holds some target's window, so that only an exact count can tell."""
    if signals.prompt.is_exact:
        return False
    low, high = signals.prompt.low, signals.prompt.high + _ROOM_TOKENS
    return any(low <= standing.target.window_tokens <= high for standing in signals.standings.values())
