"""Whether a look pays for itself: what it may save against its own seconds and money. Pure."""

import math

from router.contract.decision import Decision
from router.contract.target import TargetStatus
from router.decide.estimate import chance_of_redo, weighing_of
from router.decide.yardstick import Took

_USUAL_OUT = 150
"""Tokens of a usual answer: an objection or two."""
_FEWEST_EDITS, _LONG = 3, 0.5
"""Without outcomes: edits, or a chance of a long task, from which a turn is looked at."""
_PRIOR_RIGHT, _PRIOR_LOOKS = 2.0, 5.0
"""How often an objection is right until people said: two in five, with the weight of five."""


def chance_of_long(decision: Decision) -> float:
    """Of the ask that began the turn, where its tool loop is decided without reading it."""
    ask = decision.turn.position.ask
    return decision.score if ask is None else max(decision.score, 1 / (1 + math.exp(-ask)))


def find_right_share(acted_on: int, waved_off: int) -> float:
    """How often an objection was right lately."""
    return (acted_on + _PRIOR_RIGHT) / (acted_on + waved_off + _PRIOR_LOOKS)


def pays(
    decision: Decision, deep: TargetStatus, edits: int, tokens_in: int, max_seconds: float, right_share: float, *, holds: bool
) -> bool:
    """`holds`: the person waits for the look."""
    redo, p = weighing_of(decision).redo, chance_of_long(decision)
    if redo is None or not redo.turns:
        return edits >= _FEWEST_EDITS or p >= _LONG
    rate = decision.economics.usd_per_second
    again = (redo.seconds + redo.seconds_slope * p) * rate + redo.usd + redo.usd_slope * p
    return chance_of_redo(redo, p) * again * right_share > _cost(deep, tokens_in, max_seconds, rate if holds else 0.0)


def expect(deep: TargetStatus, tokens_in: int) -> Took:
    """What a look takes. Money is None without a known price."""
    speed, price = deep.speed, deep.target.price
    seconds = deep.wait_seconds + speed.ttft_seconds + tokens_in / speed.prefill_tokens_per_second
    seconds += _USUAL_OUT / speed.tokens_per_second
    usd = price.cost_of_turn(written_tokens=tokens_in, read_tokens=0, output_tokens=_USUAL_OUT) if price is not None else None
    return Took(seconds, usd)


def _cost(deep: TargetStatus, tokens_in: int, max_seconds: float, usd_per_second: float) -> float:
    seconds, usd = expect(deep, tokens_in)
    return min(seconds, max_seconds) * usd_per_second + (usd or 0.0)
