"""The regret meter: what the choice of tiers saved, what it cost, and how sure each figure is. No clock, no file.

The page, `tandem stats`, `tandem top` and the metrics show these figures, so that they cannot disagree. What a turn would have
taken on the other tier comes from `decide.against`, as it does on the screen: what was measured, times the ratio between what
the decisions expected of both tiers.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from router.contract.request import JsonObject
from router.contract.target import Price
from router.contract.words import Outcome, Tier, Word
from router.decide.against import TierSums, all_deep, all_fast
from router.decide.yardstick import Assumptions
from router.past.cases import RegretSign
from router.past.history import Size, size_of_work
from router.past.regrets import is_asked_again
from router.past.turns import Call, Turn

_MAX_ROWS = 50
"""How many requests a figure names."""
_WITHIN_TURNS = 2
"""An override to deep says something of the turns before it, up to this many."""
_FEW_CALLS = 4
"""Twice the calls of a quick edit, as `decision.quick` has them: a look around, the edit, and the answer."""
_MILLION = 1_000_000.0
_HARD = (RegretSign.MARKED, RegretSign.MOVED_UP)
"""Signs that leave no doubt. The others are read from what the person did next."""
_DIGITS = {"seconds": 3, "usd": 8, "tokens": 0}

Unit = Literal["seconds", "usd", "tokens"]
PriceOf = Callable[[str], Price | None]
"""What a target of this name costs."""


class Sure(Word):
    """How sure a figure is."""

    MEASURED = "measured"
    """Added up from what the ledger counted."""
    ESTIMATED = "estimated"
    """What was measured, times what was expected, or of turns that a sign points to."""
    GUESSED = "guessed"
    """By a rule of thumb for what would have happened."""


class Figure(Struct, frozen=True):
    value: float
    unit: Unit
    sure: Sure
    how: str
    """How it is computed, in one sentence."""
    rows: tuple[str, ...]
    """The ids of the requests that it comes from, the largest share first; of turns, the request that began each. Not all."""
    count: int
    """How many there are. Where none has a price, no money is known."""

    def as_json(self) -> JsonObject:
        return {**asdict(self), "sure": str(self.sure), "rows": [*self.rows]}


class _Share(NamedTuple):
    """What one turn or call has to do with a figure."""

    id: str
    amount: float


@dataclass(frozen=True, slots=True)
class Regret:
    """Every figure, by its name."""

    turns: int
    figures: Mapping[str, Figure]

    @classmethod
    def of(cls, turns: Sequence[Turn], price_of: PriceOf = lambda _: None) -> "Regret":
        """The regret of these turns, given in the order in which they began.

        `price_of` answers what a target costs now: without that it is not known what a hop cost.
        """
        signs = {id(turn): sign for turn, sign in find_signs(turns)}
        wrong = [turn for turn in turns if id(turn) in signs]
        right = [turn for turn in turns if turn.tier is Tier.FAST and id(turn) not in signs]
        needless = [turn for turn, after in _with_following(turns) if _is_needless(turn, after)]
        is_certain = all(signs[id(turn)] in _HARD for turn in wrong)
        return cls(
            len(turns),
            {
                "saved_seconds": _saved_seconds(right),
                "lost_seconds": _lost_seconds(wrong, is_certain=is_certain),
                "deep_needlessly_seconds": _needless_seconds(needless),
                "saved_usd": _saved_usd(right),
                "lost_usd": _lost_usd(wrong, is_certain=is_certain),
                "hops_usd": _hops_usd(turns, price_of),
                "after_interrupt_tokens": _after_interrupt(turns),
            },
        )

    @property
    def seconds(self) -> dict[str, float]:
        """The figures that are times, by kind: `saved`, `lost` and `deep_needlessly`."""
        found = self.figures.items()
        return {name.removesuffix("_seconds"): figure.value for name, figure in found if figure.unit == "seconds"}

    def as_json(self) -> JsonObject:
        return {"turns": self.turns, "figures": {name: figure.as_json() for name, figure in self.figures.items()}}


def find_signs(turns: Sequence[Turn]) -> Iterator[tuple[Turn, RegretSign]]:
    """Turns that were wrong on fast, each with its clearest sign: a turn that shows several is still one turn."""
    for session in _sessions(turns):
        for index, turn in enumerate(session):
            sign = _find_sign(turn, session[index + 1 : index + 1 + _WITHIN_TURNS]) if turn.tier is Tier.FAST else None
            if sign is not None:
                yield turn, sign


def _find_sign(turn: Turn, following: Sequence[Turn]) -> RegretSign | None:
    if turn.should_be is Tier.DEEP:
        return RegretSign.MARKED
    if turn.should_be is Tier.FAST:
        return None  # the person said that fast was right
    ask, *later = turn.calls
    if ask.decided is not Tier.DEEP and any(call.decided is Tier.DEEP and not call.is_asked_for for call in later):
        return RegretSign.MOVED_UP
    if _is_sent_up(turn, following):
        return RegretSign.ASKED_FOR_DEEP
    return RegretSign.ASKED_AGAIN if following and _asks_again(turn, following[0]) else None


def _is_sent_up(turn: Turn, following: Sequence[Turn]) -> bool:
    """Whether the person soon asked for deep, in this turn or after it. Not where they choose the tier of every turn."""
    if turn.calls[0].is_asked_for:
        return False
    later = (*turn.calls[1:], *(other.calls[0] for other in following))
    return any(call.is_asked_for and call.decided is Tier.DEEP for call in later)


def _asks_again(turn: Turn, after: Turn) -> bool:
    """By what the decision heard then, which is kept without any text, or by the words where they are kept."""
    return after.says_wrong or bool(turn.words and after.words and is_asked_again(turn.words, after.words))


def _is_needless(turn: Turn, after: Turn | None) -> bool:
    """Whether fast would probably have done a turn of deep: a short one, that went well, and that Tandem sent there."""
    if turn.tier is not Tier.DEEP or turn.fast is None or turn.deep is None or turn.should_be is Tier.DEEP:
        return False
    if turn.should_be is Tier.FAST:
        return True
    calls, written = turn.calls, sum(call.output_tokens for call in turn.calls)
    is_short = len(calls) <= _FEW_CALLS and size_of_work(0, written) is Size.QUICK
    went_well = all(call.outcome is Outcome.SERVED and call.tier is Tier.DEEP and not call.has_trouble for call in calls)
    return turn.is_weighed and is_short and went_well and not (after is not None and _asks_again(turn, after))


def _saved_seconds(turns: Sequence[Turn]) -> Figure:
    sums = _sum_up(Tier.FAST, turns)
    shares = (_Share(turn.id, _seconds(turn.fast_calls)) for turn in turns)
    return _figure(
        all_deep(sums).seconds - sums[Tier.FAST].seconds,
        "seconds",
        Sure.ESTIMATED,
        "What fast took for the turns that were right there, times the ratio between what the decisions expected of deep and of"
        " fast, minus what it took.",
        shares,
    )


def _saved_usd(turns: Sequence[Turn]) -> Figure:
    priced = [turn for turn in turns if _is_priced(turn)]
    sums = _sum_up(Tier.FAST, priced)
    paid = sums[Tier.FAST].usd
    return _figure(
        (all_deep(sums).usd or 0.0) - paid,
        "usd",
        Sure.ESTIMATED,
        "The same for money: what the right turns on fast would have cost on deep by the expected ratio, minus what was paid;"
        " turns without a price on both tiers are left out.",
        (_Share(turn.id, _usd(turn.fast_calls)) for turn in priced),
    )


def _lost_seconds(turns: Sequence[Turn], *, is_certain: bool) -> Figure:
    shares = [_Share(turn.id, _seconds(turn.fast_calls)) for turn in turns]
    return _figure(
        math.fsum(share.amount for share in shares),
        "seconds",
        Sure.MEASURED if is_certain else Sure.ESTIMATED,
        "What fast took for turns that were marked wrong, moved up by the router, followed by a request for deep within two"
        " turns, or asked again; each turn counts once, and not as saved.",
        shares,
    )


def _lost_usd(turns: Sequence[Turn], *, is_certain: bool) -> Figure:
    known = [turn for turn in turns if all(call.usd is not None for call in turn.fast_calls)]
    shares = [_Share(turn.id, _usd(turn.fast_calls)) for turn in known]
    return _figure(
        math.fsum(share.amount for share in shares),
        "usd",
        Sure.MEASURED if is_certain else Sure.ESTIMATED,
        "What fast cost for the same turns; turns whose cost is not known are left out.",
        shares,
    )


def _needless_seconds(turns: Sequence[Turn]) -> Figure:
    sums = _sum_up(Tier.DEEP, turns)
    return _figure(
        sums[Tier.DEEP].seconds - all_fast(sums, Assumptions()).seconds,
        "seconds",
        Sure.GUESSED,
        f"What deep took, minus what fast would have taken by the expected ratio, for turns of at most {_FEW_CALLS} calls and"
        " 2,000 tokens in which nothing failed, or that were marked for fast: fast would probably have done them.",
        (_Share(turn.id, _seconds(turn.calls)) for turn in turns),
    )


def _hops_usd(turns: Sequence[Turn], price_of: PriceOf) -> Figure:
    shares = [share for session in _sessions(turns) for share in _price_hops(session, price_of)]
    return _figure(
        math.fsum(share.amount for share in shares),
        "usd",
        Sure.ESTIMATED,
        "Where a session changed its tier: the tokens of its last call that the new target read without its cache, times what"
        " the cache would have taken off their price; hops to targets without a price are left out.",
        shares,
    )


def _after_interrupt(turns: Sequence[Turn]) -> Figure:
    left = [call for turn in turns for call in turn.calls if call.is_left and call.output_tokens]
    return _figure(
        sum(call.output_tokens for call in left),
        "tokens",
        Sure.ESTIMATED,
        "All tokens of answers that were interrupted, which is the most that can have been written after the interrupt: the"
        " ledger does not say how many came before it.",
        (_Share(call.id, call.output_tokens) for call in left),
    )


def cold_tokens(before: Call, call: Call, minutes: float) -> int:
    """How much of a prompt was read again because of a hop: it would have been cached where the session was before.

    Nothing after a pause of more than these minutes, in which that cache is forgotten as well.
    """
    if call.at - (before.at + before.seconds) > minutes * 60:
        return 0
    return max(0, min(before.input_tokens + before.output_tokens, call.input_tokens) - call.cached_tokens)


def price_hop(before: Call, call: Call, price_of: PriceOf) -> float | None:
    """USD for what was read again because of a hop, by the prices of today. None where the new target has none."""
    price, left = price_of(call.target), price_of(before.target)
    if price is None:
        return None
    at = price.at(call.input_tokens)
    return cold_tokens(before, call, (left or price).cache_minutes) * max(0.0, at.write - at.read) / _MILLION


def _price_hops(session: Sequence[Turn], price_of: PriceOf) -> Iterator[_Share]:
    known = (call for turn in session for call in turn.calls if call.tier is not None)
    for before, call in pairwise(known):
        if before.tier is not call.tier and (usd := price_hop(before, call, price_of)) is not None:
            yield _Share(call.id, usd)


def _sessions(turns: Iterable[Turn]) -> list[list[Turn]]:
    sessions: dict[tuple[str, str], list[Turn]] = {}
    for turn in turns:
        sessions.setdefault((turn.caller, turn.session), []).append(turn)
    return [*sessions.values()]


def _with_following(turns: Iterable[Turn]) -> Iterator[tuple[Turn, Turn | None]]:
    for session in _sessions(turns):
        yield from zip(session, (*session[1:], None), strict=True)


def _sum_up(tier: Tier, turns: Iterable[Turn]) -> dict[Tier, TierSums]:
    """What was measured of these turns on a tier, and what was expected of them on both."""
    sums = {one: TierSums() for one in Tier}
    for turn in turns:
        for call in turn.calls:
            if call.tier is tier:
                sums[tier].measure(call.seconds, call.usd)
        sums[tier].begin(turn.fast, turn.deep, turn.score, has_cost=turn.calls[0].usd is not None)
    return sums


def _is_priced(turn: Turn) -> bool:
    fast, deep = turn.fast, turn.deep
    is_expected = fast is not None and deep is not None and fast.has_price and deep.has_price
    return is_expected and all(call.usd is not None for call in turn.fast_calls)


def _seconds(calls: Iterable[Call]) -> float:
    return math.fsum(call.seconds for call in calls)


def _usd(calls: Iterable[Call]) -> float:
    return math.fsum(call.usd or 0.0 for call in calls)


def _figure(value: float, unit: Unit, sure: Sure, how: str, shares: Iterable[_Share]) -> Figure:
    largest = sorted(shares, key=attrgetter("amount"), reverse=True)
    rows = tuple(share.id for share in largest[:_MAX_ROWS])
    return Figure(round(value, _DIGITS[unit]), unit, sure, how, rows, len(largest))
