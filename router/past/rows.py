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
_OLD_WORDS = {"this session was asked to stay on": "session_scope", "a first line asks for": "in_band_line"}
"""Wording of overrides other than headers in older rows, which have no ranks."""
_MAX_LOG_ODDS = 20.0
_TIERS, _DIALECTS = frozenset((None, *map(str, Tier))), frozenset(map(str, Dialect))


class Said(Struct, frozen=True, gc=False):
    because: str = ""
    log_odds: float = math.inf
    rank: Rank | str = ""
    idea: str = ""


class _Evidence(Said, frozen=True, gc=False):
    """Its form in rows of older versions."""

    kind: str = ""
    policy: str = ""


class _Expected(Struct, frozen=True, gc=False):
    """An estimate in rows of older versions. That of fast includes the chance of a redo on deep."""

    seconds: float
    money_usd: float | None = None
    redo_seconds: float = 0.0


class Kept(Struct, gc=False):
    """The part of a kept decision read here, from any version. Raises `ValueError` for odd log-odds."""

    tier: str | None = None
    decided_by: str = ""
    prompt_tokens: int = 0
    weights: str = ""
    insists: tuple[tuple[str, Said], ...] = ()
    leans: tuple[tuple[str, Said], ...] = ()
    evidence: tuple[_Evidence, ...] = ()
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
    estimates: dict[str, _Expected] = {}
    """In rows of older versions."""

    def __post_init__(self) -> None:
        if self.estimates:
            self.fast, self.deep = _project(self.estimates)
        if self.evidence:
            self.insists, self.leans = (
                tuple((said.policy, said) for said in self.evidence if said.kind == kind) for kind in ("insist", "lean")
            )
        for _, lean in self.leans:
            if not abs(lean.log_odds) <= _MAX_LOG_ODDS:
                raise ValueError("no log-odds")

    @property
    def override(self) -> str:
        """Rank of the person's override, or "". Other policies insist too."""
        said = next((said for policy, said in self.insists if policy == ASKED_FOR), None)
        if said is None:
            return ""
        if isinstance(said.rank, Rank):
            return said.rank.name.lower()
        return said.rank or next((rank for start, rank in _OLD_WORDS.items() if said.because.startswith(start)), "header")

    @property
    def idea(self) -> str:
        """What the turn is about; empty if unknown, and in rows of older versions."""
        return next((lean.idea for _, lean in self.leans if lean.idea), "")


def _project(estimates: dict[str, _Expected]) -> tuple[Projection | None, Projection | None]:
    """What an older row expected of both tiers, without redos."""
    fast, deep = estimates.get(Tier.FAST), estimates.get(Tier.DEEP)
    if fast is None or deep is None:
        return None, None
    has_price = fast.money_usd is not None and deep.money_usd is not None
    fast_usd, deep_usd = fast.money_usd or 0.0, deep.money_usd or 0.0
    return (
        Projection("", 0.0, fast.seconds - fast.redo_seconds, 0.0, fast_usd, -deep_usd, has_price),
        Projection("", 0.0, deep.seconds, 0.0, deep_usd, 0.0, has_price),
    )


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
