"""Opinions, and the policies that hold them."""

import os
from enum import IntEnum
from pathlib import Path
from typing import ClassVar, Protocol, Self

from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.target import Target
from router.contract.words import Tier

BUDGET = "budget"
"""The policy that prefers fast near the end of a caller's budget."""


class Rank(IntEnum):
    """Rights to insist, strongest last."""

    RUNNING_TURN = 0
    OPERATOR_RULE = 1
    MODEL_NAME = 2
    SESSION_SCOPE = 3
    IN_BAND_LINE = 4
    HEADER = 5


class Insist(Struct, frozen=True):
    """An entitled wish for a tier, or for a target by name."""

    because: str
    rank: Rank
    tier: Tier | None = None
    target: str | None = None
    yields: bool = False
    """Whether the other tier may serve instead: for a running turn yes, for an override no."""


class RuleOut(Struct, frozen=True):
    """A target cannot serve the request: ever (`lasting`), or for `wait_seconds`. `tokens` are those needed, and the window."""

    target: str
    because: str
    lasting: bool
    wait_seconds: float | None = None
    tokens: tuple[int, int] | None = None
    yields: bool = False
    """Whether it counts only while another target can serve: an expected wait is no reason to refuse."""
    reserved_tokens: int = 0
    """How many of the needed tokens are kept free for the answer."""
    is_right: bool = False
    """The target could serve, but the caller's key is not for its tier."""


class Lean(Struct, frozen=True, omit_defaults=True):
    """Evidence for a long task (positive) or a quick edit (negative)."""

    log_odds: float
    because: str
    names_turn: bool = False
    """`because` describes the turn: the decision's sentence begins with it."""
    goes_on: float | None = None
    """Log-odds for a later turn that only points back at this one, if different: approving a plan is not planning."""
    wants_plan: bool = False
    """The turn asks for a plan: then "looks good" starts the work."""
    points_back: bool = False
    """The words only point back: "yes", "go on", "the second one"."""
    idea: str = ""
    """What the turn is about, in one of our phrases: how turns on fast end is counted by it. Empty if unknown."""


Opinion = Insist | RuleOut | Lean


class Skipped(Struct, frozen=True):
    """A policy that raised or returned an invalid opinion."""

    policy: str
    reason: str


class Opinions(Struct, frozen=True):
    """All opinions with their policies, strongest first."""

    insists: tuple[tuple[str, Insist], ...] = ()
    ruled_out: tuple[tuple[str, RuleOut], ...] = ()
    leans: tuple[tuple[str, Lean], ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def looks(self) -> Lean | None:
        for _, lean in self.leans:
            if lean.names_turn:
                return lean
        return None


class PolicyConfig(BaseModel):
    """Settings of one policy in `config.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paths: ClassVar[tuple[str, ...]] = ()

    def rooted(self, folder: Path) -> Self:
        """Resolve paths, which are relative to the file that names them."""
        named = {name: getattr(self, name) for name in self.paths}
        return self.model_copy(update={name: str(folder / os.path.expanduser(path)) for name, path in named.items() if path})

    @property
    def fingerprint(self) -> str:
        """Identifies the policy's weights; empty for none. Raises `ValueError` if they are unreadable."""
        return ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Oddities of the policy's files that do not prevent serving."""
        return ()


class MayHook(Protocol):
    """Asked before every attempt whether a request may go to a target."""

    name: ClassVar[str]

    def may(self, request: RequestView, target: Target) -> str | None:
        """Why it may not, for the caller to read; None if it may."""
        ...


class Policy(Protocol):
    """Pure once built: no clock, network, disk, randomness or logging."""

    name: ClassVar[str]
    Config: ClassVar[type[PolicyConfig]]

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """Return opinions, usually none or one."""
        ...
