"""Measured facts about a request and its place in a session. None means UNKNOWN: nobody looked, or nothing was there."""

from collections.abc import Mapping
from typing import NamedTuple

from router.contract.features import Features
from router.contract.target import Standing
from router.contract.words import Tier, TurnKind


class FinishedTurn(NamedTuple):
    """A turn that is over: what was asked, how often tools were called for it, and how many of those calls changed a file."""

    words: str
    calls: int
    edits: int


class History(NamedTuple):
    """The session before this turn: how many turns the person took, and the last three of them, oldest first."""

    turns: int = 0
    last: tuple[FinishedTurn, ...] = ()


class Turn(NamedTuple):
    """Whose turn it is: the session, what kind of request this is, and what the person typed.

    `ask_text` is what the turn is about: the same for an ask; for a tool loop, the ask that began it; for a "go on", the
    ask before it.
    """

    kind: TurnKind
    session: str
    client: str
    person_text: str | None = None
    ask_text: str | None = None
    is_planning: bool = False
    tier_wish: Tier | None = None
    history: History = History()


class TokenCount(NamedTuple):
    """Prompt tokens. An estimate carries its band: the true count lies between `low` and `high`."""

    tokens: int
    low: int
    high: int
    is_exact: bool = False


class Alias(NamedTuple):
    """What a model name stands for. A pattern is the client's habit; an exact name is somebody's wish."""

    name: str
    tier: Tier | None = None
    target: str | None = None
    is_pattern: bool = False


class Signals(NamedTuple):
    """Everything that a policy may look at besides the request itself."""

    turn: Turn
    prompt: TokenCount
    alias: Alias
    standings: Mapping[str, Standing]
    effort: str | None = None
    features: Features | None = None
    """The person's turn in numbers; None when nobody typed anything."""
