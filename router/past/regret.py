"""The regret meter: what the choice of tiers saved and cost, and how sure each figure is. Pure.

Page, `tandem stats`, `tandem top` and metrics share these figures. What a turn would have taken on the other tier comes from
`past.sums`: the measured value times the ratio of both tiers' expectations.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from router.contract.decision import ESTIMATE
from router.contract.entry import Line
from router.contract.request import JsonObject
from router.contract.target import Price
from router.contract.words import Outcome, Tier, Word
from router.decide.yardstick import Assumptions
from router.past.asked_again import is_asked_again
from router.past.history import Size, size_of_work
from router.past.rows import Call, read_call
from router.past.sums import TierSums, all_deep, all_fast
from router.past.turns import LEFT, Turn, by_session, read_turns, with_following
from router.stores.sqlite.past import SqliteEntryReader

MAX_ROWS = 10_000
"""Newest rows considered: weeks of one person's work."""
_MAX_NAMED = 50
_WITHIN_TURNS = 2
"""Turns before an override to deep that it reflects on."""
_FEW_CALLS = 4
"""Twice the calls of a quick edit in `decision.quick`: a look around, the edit, and the answer."""
_MILLION = 1_000_000.0
_DIGITS = {"seconds": 3, "usd": 8, "tokens": 0}

Unit = Literal["seconds", "usd", "tokens"]
PriceOf = Callable[[str], Price | None]


class RegretSign(StrEnum):
    """A sign that the other tier was wanted."""

    ASKED_AGAIN = "asked_again"
    INTERRUPTED = "interrupted"
    SWITCHED_MODEL = "switched_model"
    MOVED_UP = "moved_up"
    """The router moved the running turn from fast to deep."""
    ASKED_FOR_DEEP = "asked_for_deep"
    OVERRODE = "overrode"
    MARKED = "marked"
    """The person marked it with `tandem wrong`."""


_HARD = (RegretSign.MARKED, RegretSign.MOVED_UP)
"""Certain signs. The others are inferred from what the person did next."""


class Sure(Word):
    MEASURED = "measured"
    ESTIMATED = "estimated"
    """Measured times expected, or from turns that a sign points to."""
    GUESSED = "guessed"


class Figure(Struct, frozen=True):
    value: float
    unit: Unit
    sure: Sure
    how: str
    """Its computation, in one sentence."""
    rows: tuple[str, ...]
    """Some request ids it comes from, largest share first; for a turn, its first request."""
    count: int
    """Their total number. Without any price, the money is unknown."""

    def as_json(self) -> JsonObject:
        return {**asdict(self), "sure": str(self.sure), "rows": [*self.rows]}


class _Share(NamedTuple):
    """One turn's or call's part of a figure."""

    id: str
    amount: float


@dataclass(frozen=True, slots=True)
class Regret:
    """Every figure, by name."""

    turns: int
    figures: Mapping[str, Figure]

    @classmethod
    def of(cls, turns: Sequence[Turn], price_of: PriceOf = lambda _: None) -> "Regret":
        """From turns in order of their start. Without `price_of`, the cost of a hop is unknown."""
        signs = {id(turn): sign for turn, sign in find_signs(turns)}
        wrong = [turn for turn in turns if id(turn) in signs]
        right = [turn for turn in turns if turn.ask.line.tier == Tier.FAST and id(turn) not in signs]
        needless = [turn for turn, after in with_following(turns) if _is_needless(turn, after)]
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
        """Times by kind: `saved`, `lost` and `deep_needlessly`."""
        found = self.figures.items()
        return {name.removesuffix("_seconds"): figure.value for name, figure in found if figure.unit == "seconds"}

    def as_json(self) -> JsonObject:
        return {"turns": self.turns, "figures": {name: figure.as_json() for name, figure in self.figures.items()}}


class Lookback(NamedTuple):
    regret: Regret
    since: float
    begins_at: float
    """Every row since then was considered."""
    is_complete: bool

    def as_json(self) -> JsonObject:
        """For `/tandem/regret` and `tandem stats --json`."""
        return {"since": self.since, "from": self.begins_at, "complete": self.is_complete, **self.regret.as_json()}


def look_back(ledger: SqliteEntryReader, price_of: PriceOf, since: float, caller: str | None = None) -> Lookback:
    """The regret of the newest rows since a moment, at today's prices. Blocks. Raises `StoreUnusable`."""
    calls, begins_at, is_complete = ledger.read_recent_calls(read_call, since, MAX_ROWS, caller)
    return Lookback(Regret.of(read_turns(calls), price_of), since, begins_at, is_complete)


def find_signs(turns: Sequence[Turn]) -> Iterator[tuple[Turn, RegretSign]]:
    """Turns that were wrong on fast, each once with its clearest sign."""
    for session in by_session(turns):
        for index, turn in enumerate(session):
            is_fast = turn.ask.line.tier == Tier.FAST
            sign = _find_sign(turn, session[index + 1 : index + 1 + _WITHIN_TURNS]) if is_fast else None
            if sign is not None:
                yield turn, sign


def _find_sign(turn: Turn, following: Sequence[Turn]) -> RegretSign | None:
    if turn.ask.should_be is not None:
        return RegretSign.MARKED if turn.ask.should_be is Tier.DEEP else None
    if turn.was_moved_up:
        return RegretSign.MOVED_UP
    if _is_sent_up(turn, following):
        return RegretSign.ASKED_FOR_DEEP
    return RegretSign.ASKED_AGAIN if following and is_followed_by_a_redo(turn, following[0]) else None


def _is_sent_up(turn: Turn, following: Sequence[Turn]) -> bool:
    """Whether the person soon asked for deep; False if they choose the tier of every turn."""
    if turn.ask.is_asked_for:
        return False
    later = (*turn.ended[1:], *(other.ask for other in following))
    return any(call.is_asked_for and call.decided == Tier.DEEP for call in later)


def is_followed_by_a_redo(turn: Turn, after: Turn) -> bool:
    """Whether the person had to ask again: by the decision's signals, kept without text, or by the words."""
    words, then = turn.ask.words, after.ask.words
    return after.ask.says_wrong or bool(words and then and is_asked_again(words, then))


def _is_needless(turn: Turn, after: Turn | None) -> bool:
    """Whether fast would probably have done a deep turn: short, successful, and sent there by Tandem."""
    line, kept, should_be = turn.ask.line, turn.ask.kept, turn.ask.should_be
    if line.tier != Tier.DEEP or kept is None or kept.fast is None or kept.deep is None or should_be is Tier.DEEP:
        return False
    if should_be is Tier.FAST:
        return True
    calls, written = turn.ended, sum(_count(call.line.output_tokens) for call in turn.ended)
    is_short = len(calls) <= _FEW_CALLS and size_of_work(0, written) is Size.QUICK
    went_well = all(
        call.line.outcome == Outcome.SERVED and call.line.tier == Tier.DEEP and not call.has_trouble for call in calls
    )
    is_weighed = kept.decided_by == ESTIMATE
    return is_weighed and is_short and went_well and not (after is not None and is_followed_by_a_redo(turn, after))


def _saved_seconds(turns: Sequence[Turn]) -> Figure:
    sums = _sum_up(Tier.FAST, turns)
    shares = (_Share(turn.ask.line.id, _seconds(_on_fast(turn))) for turn in turns)
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
        (_Share(turn.ask.line.id, _usd(_on_fast(turn))) for turn in priced),
    )


def _lost_seconds(turns: Sequence[Turn], *, is_certain: bool) -> Figure:
    shares = [_Share(turn.ask.line.id, _seconds(_on_fast(turn))) for turn in turns]
    return _figure(
        math.fsum(share.amount for share in shares),
        "seconds",
        Sure.MEASURED if is_certain else Sure.ESTIMATED,
        "What fast took for turns that were marked wrong, moved up by the router, followed by a request for deep within two"
        " turns, or asked again; each turn counts once, and not as saved.",
        shares,
    )


def _lost_usd(turns: Sequence[Turn], *, is_certain: bool) -> Figure:
    known = [turn for turn in turns if all(call.line.cost_usd is not None for call in _on_fast(turn))]
    shares = [_Share(turn.ask.line.id, _usd(_on_fast(turn))) for turn in known]
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
        (_Share(turn.ask.line.id, _seconds(turn.ended)) for turn in turns),
    )


def _hops_usd(turns: Sequence[Turn], price_of: PriceOf) -> Figure:
    shares = [share for session in by_session(turns) for share in _price_hops(session, price_of)]
    return _figure(
        math.fsum(share.amount for share in shares),
        "usd",
        Sure.ESTIMATED,
        "Where a session changed its tier: the tokens of its last call that the new target read without its cache, times what"
        " the cache would have taken off their price; hops to targets without a price are left out.",
        shares,
    )


def _after_interrupt(turns: Sequence[Turn]) -> Figure:
    ended = (call.line for turn in turns for call in turn.ended)
    left = [_Share(line.id, _count(line.output_tokens)) for line in ended if line.outcome in LEFT and line.output_tokens]
    return _figure(
        sum(share.amount for share in left),
        "tokens",
        Sure.ESTIMATED,
        "All tokens of answers that were interrupted, which is the most that can have been written after the interrupt: the"
        " ledger does not say how many came before it.",
        left,
    )


def cold_tokens(before: Line, line: Line, minutes: float) -> int:
    """Prompt tokens read again after a hop; 0 after a pause of more than these minutes, when the old cache expired too."""
    if line.at - (before.at + before.duration_ms / 1000) > minutes * 60:
        return 0
    known = _count(before.input_tokens) + _count(before.output_tokens)
    return max(0, min(known, _count(line.input_tokens)) - _count(line.cached_tokens))


def price_hop(before: Line, line: Line, price_of: PriceOf) -> float | None:
    """USD for tokens read again, at today's prices; None if the new target has no price."""
    price, left = price_of(line.target or ""), price_of(before.target or "")
    if price is None:
        return None
    at = price.at(_count(line.input_tokens))
    return cold_tokens(before, line, (left or price).cache_minutes) * max(0.0, at.write - at.read) / _MILLION


def _price_hops(session: Sequence[Turn], price_of: PriceOf) -> Iterator[_Share]:
    known = (call.line for turn in session for call in turn.ended if call.line.tier is not None)
    for before, line in pairwise(known):
        if before.tier != line.tier and (usd := price_hop(before, line, price_of)) is not None:
            yield _Share(line.id, usd)


def _sum_up(tier: Tier, turns: Iterable[Turn]) -> dict[Tier, TierSums]:
    sums = {one: TierSums() for one in Tier}
    for turn in turns:
        for call in turn.ended:
            if call.line.tier == tier:
                sums[tier].measure(call.line)
        sums[tier].begin(turn.ask.line, turn.ask.kept)
    return sums


def _is_priced(turn: Turn) -> bool:
    kept = turn.ask.kept
    is_expected = kept is not None and all(side is not None and side.has_price for side in (kept.fast, kept.deep))
    return is_expected and all(call.line.cost_usd is not None for call in _on_fast(turn))


def _on_fast(turn: Turn) -> list[Call]:
    return [call for call in turn.ended if call.line.tier == Tier.FAST]


def _count(tokens: int | None) -> int:
    return max(0, tokens or 0)


def _seconds(calls: Iterable[Call]) -> float:
    return math.fsum(call.line.duration_ms / 1000 for call in calls)


def _usd(calls: Iterable[Call]) -> float:
    return math.fsum(call.line.cost_usd or 0.0 for call in calls)


def _figure(value: float, unit: Unit, sure: Sure, how: str, shares: Iterable[_Share]) -> Figure:
    largest = sorted(shares, key=attrgetter("amount"), reverse=True)
    rows = tuple(share.id for share in largest[:_MAX_NAMED])
    return Figure(round(value, _DIGITS[unit]), unit, sure, how, rows, len(largest))
