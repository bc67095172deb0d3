"""What a policy may answer, and what a policy is."""

import os
from enum import IntEnum
from pathlib import Path
from typing import ClassVar, Protocol, Self

from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import Tier


class Rank(IntEnum):
    """Who has the right to insist, strongest last."""

    RUNNING_TURN = 0
    OPERATOR_RULE = 1
    MODEL_NAME = 2
    SESSION_SCOPE = 3
    IN_BAND_LINE = 4
    HEADER = 5


class Insist(Struct, frozen=True):
    """Someone with the right to say so has asked for a tier, or for one target by name."""

    because: str
    rank: Rank
    tier: Tier | None = None
    target: str | None = None
    yields: bool = False
    """Whether the other tier may serve where this one cannot: a running turn yields, an override does not."""


class RuleOut(Struct, frozen=True):
    """A target cannot serve the request: ever (`lasting`), or for now (then `wait_seconds` says how long).

    `tokens` is set when it is about length, so that the refusal can carry the numbers that clients look for: those needed, and
    the window.
    """

    target: str
    because: str
    lasting: bool
    wait_seconds: float | None = None
    tokens: tuple[int, int] | None = None
    yields: bool = False
    """Whether it counts only while another target can serve: a wait that we expect is no reason to refuse a request."""
    reserved_tokens: int = 0
    """How many of the tokens needed are not the prompt's own, but kept free for the answer."""
    is_right: bool = False
    """Whether the target could serve the request, and the caller's key is not for its tier."""


class Lean(Struct, frozen=True, omit_defaults=True):
    """Evidence that this turn is a long task (positive) or a quick edit (negative)."""

    log_odds: float
    because: str
    names_turn: bool = False
    """Whether `because` says what the turn looks like: the decision's sentence begins with that."""
    goes_on: float | None = None
    """The log-odds of a later turn that only points back at this one, where they are not the same: approving a plan is not
    planning."""
    wants_plan: bool = False
    """Whether the turn asks for a plan: then "looks good" starts the work."""
    points_back: bool = False
    """Whether the words only point back at the turn before: "yes", "go on", "the second one"."""


Opinion = Insist | RuleOut | Lean


class Skipped(Struct, frozen=True):
    """A policy that raised, or returned an invalid opinion."""

    policy: str
    reason: str


class Opinions(Struct, frozen=True):
    """Everything that was said, each with the policy that said it: strongest first, whatever the order of the policies."""

    insists: tuple[tuple[str, Insist], ...] = ()
    ruled_out: tuple[tuple[str, RuleOut], ...] = ()
    leans: tuple[tuple[str, Lean], ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def looks(self) -> Lean | None:
        """The opinion that says what the turn looks like."""
        for _, lean in self.leans:
            if lean.names_turn:
                return lean
        return None


class PolicyConfig(BaseModel):
    """The settings of one policy, as they are under its name in `config.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paths: ClassVar[tuple[str, ...]] = ()
    """The settings that name files."""

    def rooted(self, folder: Path) -> Self:
        """The same with its paths made whole: they are relative to the file that names them."""
        named = {name: getattr(self, name) for name in self.paths}
        return self.model_copy(update={name: str(folder / os.path.expanduser(path)) for name, path in named.items() if path})

    @property
    def fingerprint(self) -> str:
        """Which weights the policy reads; empty for one that reads none. Raises `ValueError` where they cannot be read."""
        return ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the policy's files, and keeps nobody from serving."""
        return ()


class Policy(Protocol):
    """Pure once built: no clock, network, disk, randomness or logging."""

    name: ClassVar[str]
    Config: ClassVar[type[PolicyConfig]]

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """Answer opinions, usually none or one."""
        ...
