"""A ledger row, with the part of its decision needed for thousands; `settle.kept` reads whole ones. Pure."""

import math
from typing import NamedTuple

import msgspec
from msgspec import Struct

from router.contract.decision import Projection
from router.contract.entry import Line
from router.contract.opinions import Rank
from router.contract.past import RecordedCall
from router.contract.words import Dialect, Tier, TurnKind

ASKED_FOR, _TROUBLE = "override", "trajectory"
"""The policy for the person's wishes, and the one that reacts to failing calls."""
_MAX_LOG_ODDS = 20.0
_TIERS, _DIALECTS = frozenset((None, *map(str, Tier))), frozenset(map(str, Dialect))


class Said(Struct, frozen=True, gc=False):
    because: str = ""
    log_odds: float = math.inf
    rank: Rank | None = None
    idea: str = ""


class Kept(Struct, gc=False):
    """The part of a kept decision read here. Raises `ValueError` for odd log-odds."""

    tier: str | None = None
    decided_by: str = ""
    prompt_tokens: int = 0
    weights: str = ""
    insists: tuple[tuple[str, Said], ...] = ()
    leans: tuple[tuple[str, Said], ...] = ()
    fast: Projection | None = None
    """Expected of each tier; None if not open."""
    deep: Projection | None = None
    person_text: str | None = None
    edits: int = 0
    """Edits of its turn before it."""
    combining: str = ""
    """What both tiers did for the task, as `Combining.words` says it."""
    asked_again: bool = False
    """Whether its words say that the turn before has to be done again."""
    shadow: dict[str, float] = {}
    """Plans whose money was a shadow price, which nobody paid."""

    def __post_init__(self) -> None:
        for _, lean in self.leans:
            if not abs(lean.log_odds) <= _MAX_LOG_ODDS:
                raise ValueError("no log-odds")

    @property
    def override(self) -> str:
        """Rank of the person's override, or "". Other policies insist too."""
        rank = next((said.rank for policy, said in self.insists if policy == ASKED_FOR), None)
        return "" if rank is None else rank.name.lower()

    @property
    def idea(self) -> str:
        """What the turn is about; empty if unknown."""
        return next((lean.idea for _, lean in self.leans if lean.idea), "")


_decode = msgspec.json.Decoder(Kept, strict=False).decode


class Call(NamedTuple):
    """A finished call."""

    line: Line
    kept: Kept | None = None
    """None without a decision, or if Tandem did not write the row."""
    should_be: Tier | None = None
    prompt_text: str | None = None

    @property
    def decided(self) -> str | None:
        """The decided tier; another may have served after failures."""
        return self.kept.tier if self.kept is not None else None

    @property
    def is_asked_for(self) -> bool:
        """Whether the person asked for its tier or target."""
        return self.kept is not None and self.kept.decided_by == ASKED_FOR

    @property
    def has_trouble(self) -> bool:
        """Whether tool calls had failed before it. On an ask the policy reacts only to earlier words."""
        if self.kept is None or self.line.turn_kind != TurnKind.TOOL_LOOP:
            return False
        return any(policy == _TROUBLE for policy, _ in self.kept.leans)

    @property
    def words(self) -> str:
        """The person's text, if the ledger keeps it."""
        return (self.kept.person_text if self.kept is not None else None) or ""


def read_kept(decision: str | None) -> Kept | None:
    """None if absent or unreadable."""
    try:
        return _decode(decision) if isinstance(decision, str) else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def read_call(row: RecordedCall) -> Call:
    line, kept = row.line, read_kept(row.decision)
    if not math.isfinite(line.at) or line.tier not in _TIERS or line.dialect not in _DIALECTS:
        kept = None
    if kept is not None and line.turn_kind == TurnKind.TOOL_LOOP:  # thousands: only what `has_trouble` asks for
        kept.leans = tuple(lean for lean in kept.leans if lean[0] == _TROUBLE)
    return Call(line, kept, row.should_be, row.prompt_text)
