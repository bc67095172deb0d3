"""Rows of the ledger → turns, with what tells whether each went to the right tier. Pure.

`lab.ledger` reads whole decisions, to decide turns again. Here only a part of each is read, so that a page can show thousands.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from router.contract.decision import ESTIMATE, Projection
from router.contract.past import TurnCall
from router.contract.words import ASKED_AGAIN, SAID_WRONG, Outcome, Tier, TurnKind

_WISHES = "override"
"""The policy that speaks for the person."""
_TROUBLE = "trajectory"
"""The policy that leans where calls of a running turn fail. On the ask itself it leans only to words that came before."""
_RACE = "x:race-req_"
"""How the sessions of a race begin (`page.race`): both tiers had its prompt, so no choice was made."""
_SAYS_WRONG = (SAID_WRONG, ASKED_AGAIN)
_TIERS: dict[str | None, Tier] = {str(tier): tier for tier in Tier}
_OUTCOMES = {str(outcome): outcome for outcome in Outcome}


class _Said(Struct):
    """The part of a kept lean that is read here."""

    because: str = ""


class _Kept(Struct):
    """The part of a kept decision that is read here. Rows of older Tandems have some of it."""

    tier: str | None = None
    decided_by: str = ""
    leans: tuple[tuple[str, _Said], ...] = ()
    fast: Projection | None = None
    deep: Projection | None = None
    person_text: str | None = None


_decode = msgspec.json.Decoder(_Kept, strict=False).decode


class Call(Struct, frozen=True):
    id: str
    tier: Tier | None
    """Of the target that served."""
    seconds: float
    at: float = 0.0
    decided: Tier | None = None
    """The tier that was decided on: another one serves where its targets fail."""
    target: str = ""
    usd: float | None = None
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    is_asked_for: bool = False
    """Whether the person asked for its tier or target."""
    has_trouble: bool = False
    """Whether calls of tools had failed before it."""
    outcome: Outcome = Outcome.SERVED

    @property
    def is_left(self) -> bool:
        """Whether the person did not want the rest of the answer: they hung up, or said something else in the meantime."""
        return self.outcome in (Outcome.ABANDONED, Outcome.INTERRUPTED)


@dataclass(slots=True)
class Turn:
    """What a person typed, and the calls that were made for it."""

    calls: list[Call]
    """The first is the ask itself."""
    session: str = ""
    caller: str = ""
    score: float = 0.0
    fast: Projection | None = None
    """What was expected of each tier when the turn began. None where a tier was not open."""
    deep: Projection | None = None
    is_weighed: bool = True
    """Whether the tier was Tandem's own choice: nobody asked for it, and both were open."""
    words: str = ""
    """What the person typed, where the ledger keeps texts."""
    says_wrong: bool = False
    """Whether the decision heard, in the words of this turn, that the turn before went wrong on fast."""
    should_be: Tier | None = None
    """The tier that the person said it should have had."""

    @property
    def id(self) -> str:
        return self.calls[0].id

    @property
    def tier(self) -> Tier | None:
        """Where it began."""
        return self.calls[0].tier

    @property
    def fast_calls(self) -> list[Call]:
        return [call for call in self.calls if call.tier is Tier.FAST]


def read_turns(rows: Iterable[TurnCall]) -> list[Turn]:
    """The turns of these rows, in the order in which they began.

    A row that Tandem did not write begins no turn, and its calls belong to no other. Neither does a call whose ask is too old.
    """
    turns: list[Turn] = []
    running: dict[tuple[str, str], Turn | None] = {}
    for row in rows:
        if row.session.startswith(_RACE):
            continue
        key = (row.caller, row.session)
        try:
            kept = _decode(row.decision)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            kept = None
        if row.turn_kind == TurnKind.TOOL_LOOP:
            turn = running.get(key)
            if turn is not None and kept is not None:
                turn.calls.append(_read_call(row, kept))
            continue
        turn = running[key] = _begin(row, kept) if kept is not None else None
        if turn is not None:
            turns.append(turn)
    return turns


def _begin(row: TurnCall, kept: _Kept) -> Turn:
    return Turn(
        [_read_call(row, kept)],
        row.session,
        row.caller,
        row.score or 0.0,
        kept.fast,
        kept.deep,
        is_weighed=kept.decided_by == ESTIMATE,
        words=kept.person_text or "",
        says_wrong=any(lean.because.startswith(_SAYS_WRONG) for _, lean in kept.leans),
        should_be=row.should_be,
    )


def _read_call(row: TurnCall, kept: _Kept) -> Call:
    return Call(
        row.id,
        _TIERS.get(row.tier),
        row.duration_ms / 1000,
        row.at,
        _TIERS.get(kept.tier),
        row.target or "",
        row.cost_usd,
        max(0, row.input_tokens or 0),
        max(0, row.cached_tokens or 0),
        max(0, row.output_tokens or 0),
        is_asked_for=kept.decided_by == _WISHES,
        has_trouble=row.turn_kind == TurnKind.TOOL_LOOP and any(policy == _TROUBLE for policy, _ in kept.leans),
        outcome=_OUTCOMES[row.outcome],
    )
