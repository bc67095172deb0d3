"""The yardstick of `eval`, `replay`, `stats` and the benches: time and money until turns are done.

How often fast's first answer is wrong, and what that costs the person, cannot be measured: it is assumed, and printed with the
figures. The decision weighs it more heavily, by preference: see `contract.economics`.
"""

from typing import NamedTuple

from router.contract.economics import ASSUMED_RATES
from router.contract.request import JsonObject
from router.contract.target import Speed
from router.contract.words import Tier

TOKENS_PER_CALL, TOOL_SECONDS = 199.0, 0.3
"""From recorded turns, for those of which only the calls are known."""


class Assumptions(NamedTuple):
    """Fast's wrong first answers. The turn on deep comes on top."""

    fails_quick: float = ASSUMED_RATES.quick
    fails_long: float = ASSUMED_RATES.long
    failure_seconds: float = 120.0
    """The person's time to notice, report and undo a wrong answer."""

    def chance(self, p: float) -> float:
        return self.fails_quick + (self.fails_long - self.fails_quick) * p

    def sentence(self) -> str:
        return (
            f"assumed: fast's first answer is wrong in {100 * self.fails_quick:g} % of quick and {100 * self.fails_long:g} % of"
            f" long turns, which costs you {self.failure_seconds:g} s and the turn again on deep"
        )

    def as_json(self) -> JsonObject:
        return {**self._asdict()}


class Took(NamedTuple):
    """A first answer on one tier. Money is None without a known price."""

    seconds: float
    usd: float | None = None


class Done(NamedTuple):
    """A turn until it is done. `seconds` and `usd` include the expected redo, of which `redo_seconds` is the time."""

    seconds: float
    redo_seconds: float
    usd: float | None
    wrong: float


def to_done(tier: Tier, fast: Took, deep: Took, p: float, assumed: Assumptions) -> Done:
    """`p` is the chance of a long turn (0 or 1 if known)."""
    if tier is Tier.DEEP:
        return Done(deep.seconds, 0.0, deep.usd, 0.0)
    chance = assumed.chance(p)
    redo = chance * (assumed.failure_seconds + deep.seconds)
    usd = None if fast.usd is None or deep.usd is None else fast.usd + chance * deep.usd
    return Done(fast.seconds + redo, redo, usd, chance)


def took(speed: Speed, calls: float) -> Took:
    return Took(calls * (speed.ttft_seconds + TOKENS_PER_CALL / speed.tokens_per_second + TOOL_SECONDS))
