"""What Tandem was worth: what was spent, what all on deep would have taken, and the turns that were redone. Pure.

Every surface shows these figures, and no others. Each call adds what it took and cost, as measured. On deep, a call that fast
served would have taken as many times as long as the decision of its turn expected of deep. What fast did for a turn that was
redone adds nothing to all on deep: deep would have done it once. The figures of days and people add up to the total.
"""

import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from router.contract.entry import Line
from router.contract.past import SpentCall, TurnWorth, WorthSums
from router.contract.request import JsonObject
from router.contract.words import BEGINS, Outcome, Tier, TurnKind, Word
from router.past.rows import ASKED_FOR, Kept, read_kept
from router.past.turns import WORKED, lacks_cost

MAX_SESSIONS = 10_000
"""Sessions whose last turn is remembered, to hear that it was redone."""
_LEAST_SECONDS, _LEAST_USD = 1.0, 0.0005
"""Smaller differences are not worth a word."""


class Redone(Word):
    """How a turn that began on fast is known to have been redone."""

    MARKED = "marked"
    """The person marked it with `tandem wrong deep`."""
    MOVED_UP = "moved_up"
    """The router moved it to deep while it ran."""
    ASKED_FOR_DEEP = "asked_for_deep"
    """The person asked for deep in it, or in the next turn."""
    ASKED_AGAIN = "asked_again"
    """The person's next words said that it was wrong."""


class _Ratio(NamedTuple):
    """What a call on fast becomes on deep: its time and money times these, and money for its seconds where fast is free."""

    seconds: float = 1.0
    usd: float = 1.0
    usd_per_second: float = 0.0


_AS_IT_WAS = _Ratio()


@dataclass(slots=True)
class Worth:
    """The figures of some calls. Money leaves out calls of unknown cost, on both sides."""

    turns: int = 0
    fast_turns: int = 0
    calls: int = 0
    fast_calls: int = 0
    compared: int = 0
    """Calls on fast that have an estimate for deep, or were redone. The others count as they were."""
    seconds: float = 0.0
    usd: float = 0.0
    saved_seconds: float = 0.0
    """Estimated: all on deep minus what was spent."""
    known_saved_usd: float = 0.0
    redone: dict[Redone, int] = field(default_factory=dict)
    """Turns by how that is known."""
    redone_seconds: float = 0.0
    """Time that fast had worked on them."""
    redone_usd: float = 0.0
    list_usd: float = 0.0
    """What plans paid for, at list price: part of no other figure."""
    priced: int = 0
    unpriced: int = 0
    failed: int = 0
    refused: int = 0
    """Left out of everything else."""

    @classmethod
    def of(cls, sums: WorthSums) -> "Worth":
        own = sums._asdict()
        redone = {sign: count for sign in Redone if (count := own.pop(sign))}
        return cls(known_saved_usd=own.pop("saved_usd"), redone=redone, **own)

    @property
    def saved_usd(self) -> float | None:
        """None where no price is known."""
        return self.known_saved_usd if self.has_money else None

    @property
    def has_money(self) -> bool:
        return self.priced > 0 or not self.unpriced

    @property
    def redone_turns(self) -> int:
        return sum(self.redone.values())

    def as_json(self) -> JsonObject:
        return {
            "turns": self.turns,
            "fast_turns": self.fast_turns,
            "deep_turns": self.turns - self.fast_turns,
            "calls": self.calls,
            "compared_calls": self.compared,
            "spent": self._show(self.seconds, self.usd),
            "all_deep": self._show(self.seconds + self.saved_seconds, self.usd + self.known_saved_usd),
            "saved": self._show(self.saved_seconds, self.known_saved_usd),
            "redone": self.redone_as_json(),
            "list_usd": round(self.list_usd, 8),
            "left_out": {"unpriced": self.unpriced, "refused": self.refused},
            "failed": self.failed,
            "sentence": self.sentence(),
        }

    def redone_as_json(self) -> JsonObject:
        by_sign = {str(sign): self.redone.get(sign, 0) for sign in Redone}
        return {"turns": self.redone_turns, **self._show(self.redone_seconds, self.redone_usd), **by_sign}

    def _show(self, seconds: float, usd: float) -> JsonObject:
        return {"seconds": round(seconds, 3) + 0.0, "usd": round(usd, 8) + 0.0 if self.has_money else None}

    def sentence(self) -> str:
        """`$2.10 and about 12 min less than all on deep; 3 turns were redone (4 min)`."""
        parts = [self._say_saved()]
        if turns := self.redone_turns:
            were = "turn was" if turns == 1 else "turns were"
            parts.append(f"{turns:,} {were} redone ({say_seconds(self.redone_seconds)})")
        if self.unpriced:
            calls = "call" if self.unpriced == 1 else "calls"
            parts.append(f"the cost of {self.unpriced:,} {calls} is unknown")
        if self.list_usd >= _LEAST_USD:
            parts.append(f"what plans paid for is worth {say_usd(self.list_usd)} at list price")
        return "; ".join(parts)

    def _say_saved(self) -> str:
        if not self.calls:
            return "no turns"
        seconds, usd = self.saved_seconds, self.saved_usd or 0.0
        said = [(usd > 0, say_usd(abs(usd)))] if abs(usd) >= _LEAST_USD else []
        said += [(seconds > 0, f"about {say_seconds(abs(seconds))}")] if abs(seconds) >= _LEAST_SECONDS else []
        if not said:
            is_unknown = self.fast_calls and not self.compared
            return "no estimate of all on deep" if is_unknown else "the same as all on deep"
        words = [f"{amount} {'less' if is_less else 'more'}" for is_less, amount in said]
        if len(said) > 1 and said[0][0] is said[1][0]:
            words[0] = said[0][1]
        return f"{' and '.join(words)} than all on deep"

    def summary(self) -> str:
        """The last line of `serve` and `run`."""
        counts = [f"{count:,} {what}" for count, what in ((self.failed, "failed"), (self.refused, "refused")) if count]
        if not self.calls:
            return ", ".join(["no turns", *counts])
        tiers = ((self.fast_turns, Tier.FAST), (self.turns - self.fast_turns, Tier.DEEP))
        shown = [f"{self.turns:,} turn{'' if self.turns == 1 else 's'}", *(f"{n:,} {tier}" for n, tier in tiers if n)]
        shown.append(say_usd(self.usd) if self.has_money else say_seconds(self.seconds))
        return "; ".join([", ".join(shown), self.sentence(), *([", ".join(counts)] if counts else [])])


def say_seconds(seconds: float) -> str:
    """`41 s`, `12 min`, `2 h 5 min`."""
    if seconds < 59.5:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def say_usd(usd: float) -> str:
    return f"${usd:,.2f}" if usd >= 0.0995 or not usd else f"${usd:.3f}" if usd >= 0.0005 else f"${usd:.2g}"


class _Word(NamedTuple):
    """What kind, tier and outcome of a call mean here."""

    begins: bool
    goes_on: bool
    has_worked: bool
    is_fast: bool
    is_left_out: bool
    is_refused: bool
    is_failed: bool


@functools.lru_cache(1_024)
def _read_word(kind: str | None, tier: str | None, outcome: str) -> _Word:
    is_refused, has_worked = outcome == Outcome.REFUSED, outcome in WORKED
    return _Word(
        begins=has_worked and kind in BEGINS,
        goes_on=has_worked and kind == TurnKind.TOOL_LOOP,
        has_worked=has_worked,
        is_fast=tier == Tier.FAST,
        is_left_out=is_refused or tier not in tuple(Tier),
        is_refused=is_refused,
        is_failed=outcome == Outcome.FAILED,
    )


class Turn:
    """Calls that are compared by one decision: a person's turn, or a call of its own."""

    __slots__ = (
        *("ask", "is_persons", "is_on_fast", "is_chosen", "decided", "words", "idea", "deep_target", "ratio", "sign"),
        *("calls", "failed", "refused", "unpriced", "fast_calls", "fast_priced", "deep_priced", "begins_at", "ends_at"),
        *("fast_seconds", "fast_usd", "deep_seconds", "deep_usd", "list_usd"),
    )

    def __init__(self, ask: SpentCall, kept: Kept | None, *, is_fast: bool, is_persons: bool) -> None:
        self.ask, self.is_persons = ask._replace(decision=None), is_persons
        self.is_on_fast = is_fast and kept is not None
        self.is_chosen = kept is not None and kept.decided_by != ASKED_FOR
        """Whether Tandem chose its tier."""
        self.decided = kept.tier if kept is not None and kept.tier else ask.tier
        self.words = kept.person_text or "" if kept is not None else ""
        self.idea = kept.idea if kept is not None else ""
        self.deep_target = kept.deep.target if kept is not None and kept.deep is not None else ""
        self.ratio = _read_ratio(ask, kept)
        self.sign: Redone | None = None
        self.begins_at = self.ends_at = ask.at
        self.calls = self.failed = self.refused = self.unpriced = self.fast_calls = self.fast_priced = self.deep_priced = 0
        self.fast_seconds = self.fast_usd = self.deep_seconds = self.deep_usd = self.list_usd = 0.0

    def measure(self, call: SpentCall, word: _Word) -> None:
        """Add what a call took and cost."""
        cost, seconds = call.cost_usd, call.duration_ms / 1000
        self.failed += word.is_failed
        self.refused += word.is_refused
        if word.is_left_out:
            return
        self.calls += 1
        self.unpriced += call.is_unpriced
        self.list_usd += call.list_usd or 0.0
        if word.is_fast and word.has_worked:
            self.fast_calls += 1
            self.fast_seconds += seconds
            if cost is not None:
                self.fast_priced += 1
                self.fast_usd += cost
        else:
            self.deep_seconds += seconds
            if cost is not None:
                self.deep_priced += 1
                self.deep_usd += cost

    def saved(self) -> tuple[float, float]:
        """Seconds and USD: what its calls on fast would have taken on deep, minus what they took."""
        if self.sign is not None:
            return -self.fast_seconds, -self.fast_usd
        ratio = self.ratio
        more = self.fast_seconds * ratio.usd_per_second if self.fast_priced else 0.0
        return self.fast_seconds * (ratio.seconds - 1), self.fast_usd * (ratio.usd - 1) + more

    def add_to(self, worth: Worth) -> None:
        saved_seconds, saved_usd = self.saved()
        worth.turns += self.is_persons
        worth.fast_turns += self.is_persons and self.fast_calls > 0 and self.ask.tier == Tier.FAST
        worth.calls += self.calls
        worth.fast_calls += self.fast_calls
        worth.compared += self.fast_calls if self.ratio is not _AS_IT_WAS or self.sign is not None else 0
        worth.failed += self.failed
        worth.refused += self.refused
        worth.priced += self.fast_priced + self.deep_priced
        worth.unpriced += self.unpriced
        worth.seconds += self.fast_seconds + self.deep_seconds
        worth.usd += self.fast_usd + self.deep_usd
        worth.list_usd += self.list_usd
        worth.saved_seconds += saved_seconds
        worth.known_saved_usd += saved_usd
        if self.sign is not None:
            worth.redone[self.sign] = worth.redone.get(self.sign, 0) + 1
            worth.redone_seconds += self.fast_seconds
            worth.redone_usd += self.fast_usd

    def reach(self, at: float) -> None:
        """Note when a call arrived that belongs to it or speaks of it."""
        self.begins_at, self.ends_at = min(self.begins_at, at), max(self.ends_at, at)

    def as_row(self) -> TurnWorth:
        ask, worth = self.ask, Worth()
        self.add_to(worth)
        has_kind = bool(self.idea) and self.is_persons and self.is_on_fast and self.is_chosen
        return TurnWorth(
            ask.sequence,
            ask.session,
            ask.caller,
            ask.client,
            ask.target,
            ask.at,
            self.begins_at,
            self.ends_at,
            self.idea if has_kind else "",
            self.deep_target if has_kind else "",
            str(self.sign) if self.sign is not None else "",
            self.is_on_fast,
            self.fast_seconds,
            self.fast_usd,
            worth.turns,
            worth.fast_turns,
            worth.calls,
            worth.fast_calls,
            worth.compared,
            worth.failed,
            worth.refused,
            worth.priced,
            worth.unpriced,
            worth.seconds,
            worth.usd,
            worth.list_usd,
            worth.saved_seconds,
            worth.known_saved_usd,
        )


class Account:
    """Adds up calls in the order of the ledger. `end` is called for each turn once nothing can be added to it."""

    def __init__(self, marks: Mapping[str, Tier], end: Callable[[Turn], None], sessions: int = MAX_SESSIONS) -> None:
        """`marks` are the right tiers of marked requests."""
        self._marks, self._end, self._sessions = marks, end, sessions
        self._open: dict[tuple[str, str | None], Turn] = {}

    def add(self, call: SpentCall) -> None:
        word = _read_word(call.kind, call.tier, call.outcome)
        if word.goes_on and (turn := self._open.get((call.caller, call.session))) is not None:
            if not word.is_fast and turn.is_on_fast and turn.sign is None:
                self._hear_move(turn, call)
            turn.reach(call.at)
            turn.measure(call, word)
        else:
            self._begin(call, word)

    def close(self) -> None:
        """End the turns that are open."""
        for turn in self._open.values():
            self._end(turn)
        self._open.clear()

    def _begin(self, call: SpentCall, word: _Word) -> None:
        """A turn begins, and may say that the one before went wrong."""
        is_fast = word.is_fast and word.has_worked
        kept = read_kept(call.decision) if word.begins or is_fast else None
        turn = Turn(call, kept, is_fast=is_fast, is_persons=word.begins)
        turn.measure(call, word)
        session, key = call.session, (call.caller, call.session)
        if not word.begins or session is None:
            self._end(turn)
            return
        if (before := self._open.pop(key, None)) is not None:
            if kept is not None:
                self._hear(before, turn, kept)
            before.reach(call.at)
            self._end(before)
        if turn.is_on_fast and self._marks.get(call.id or "") is Tier.DEEP:
            turn.sign = Redone.MARKED
        self._open[key] = turn
        if len(self._open) > self._sessions:
            self._end(self._open.pop(next(iter(self._open))))

    def _hear(self, before: Turn, turn: Turn, kept: Kept) -> None:
        if before.sign is not None or not before.is_on_fast or before.ask.id in self._marks:
            return
        if before.is_chosen and not turn.is_chosen and turn.decided == Tier.DEEP:
            before.sign = Redone.ASKED_FOR_DEEP
        elif kept.asked_again:
            before.sign = Redone.ASKED_AGAIN

    def _hear_move(self, turn: Turn, call: SpentCall) -> None:
        """A call of a turn that began on fast went to deep: by decision, or since fast's target failed."""
        kept = read_kept(call.decision)
        if kept is None or (kept.tier or call.tier) != Tier.DEEP or turn.decided == Tier.DEEP or turn.ask.id in self._marks:
            return
        if kept.decided_by != ASKED_FOR:
            turn.sign = Redone.MOVED_UP
        elif turn.is_chosen:
            turn.sign = Redone.ASKED_FOR_DEEP


def fold(calls: Iterable[SpentCall], marks: Mapping[str, Tier]) -> Iterator[TurnWorth]:
    ended: list[Turn] = []
    account = Account(marks, ended.append, sys.maxsize)
    for call in calls:
        account.add(call)
        if ended:
            yield from (turn.as_row() for turn in ended)
            ended.clear()
    account.close()
    yield from (turn.as_row() for turn in ended)


def spend(line: Line, decision: str | None) -> SpentCall:
    """A call that has ended just now."""
    own = (line.caller, line.session, line.turn_kind, line.tier, line.outcome, line.duration_ms, line.cost_usd)
    asked = (line.id, line.score, line.at, line.client, line.target, line.list_usd)
    return SpentCall(*own, lacks_cost(line), decision, *asked)


def _read_ratio(call: SpentCall, kept: Kept | None) -> _Ratio:
    """From what the decision expected of both tiers, each by its target's own pace and price."""
    fast, deep = (kept.fast, kept.deep) if kept is not None else (None, None)
    if fast is None or deep is None:
        return _AS_IT_WAS
    long = call.score or 0.0
    fast_seconds, deep_seconds = fast.seconds + fast.seconds_slope * long, deep.seconds + deep.seconds_slope * long
    if not (0 < fast_seconds < math.inf and 0 < deep_seconds < math.inf):
        return _AS_IT_WAS
    seconds = deep_seconds / fast_seconds
    if not (fast.has_price and deep.has_price):
        return _Ratio(seconds)
    shadow = kept.shadow if kept is not None else {}
    fast_usd, deep_usd = (0.0 if of.target in shadow else of.usd + of.usd_slope * long for of in (fast, deep))
    if not (0 <= fast_usd < math.inf and 0 <= deep_usd < math.inf):
        return _Ratio(seconds)
    return _Ratio(seconds, deep_usd / fast_usd) if fast_usd else _Ratio(seconds, usd_per_second=deep_usd / fast_seconds)
