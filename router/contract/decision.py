"""The decision: one frozen value that explains itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from router.contract.signals import Turn
from router.contract.target import WorkRatio
from router.contract.words import Tier


class Evidence(NamedTuple):
    """One opinion as it counted, with the policy that held it."""

    policy: str
    kind: str
    because: str
    log_odds: float | None = None
    target: str | None = None
    rank: str | None = None
    """Of an insist: by which right it was said (`header`, `in_band_line`, `session_scope`, …)."""
    tier: Tier | None = None
    """Of an insist: the tier that was asked for."""
    is_lasting: bool | None = None
    """Of a rule-out: whether it holds for good."""
    tokens: tuple[int, int] | None = None
    """Of a rule-out for length: the tokens needed, and those that fit."""


class Estimate(NamedTuple):
    """Expected time and money to done for one tier, over the whole turn. No price, no money: it is not known."""

    target: str
    seconds: float
    money_usd: float | None
    cost_usd: float
    wait_seconds: float
    redo_seconds: float
    ratio: WorkRatio = WorkRatio()
    """How this target's past turns compare to what was expected of them: counted in."""


class Flip(NamedTuple):
    """What would have changed the tier: the chance of a long task, or the wait on fast, at which both cost the same."""

    score: float | None
    fast_wait_seconds: float | None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A policy that raised, or returned an invalid opinion."""

    policy: str
    reason: str


class Decision(NamedTuple):
    """Which tier serves a turn, and why. `spill` are the other tier's targets that a failed attempt may go to."""

    tier: Tier
    targets: tuple[str, ...]
    spill: tuple[str, ...]
    score: float
    because: str
    decided_by: str
    evidence: tuple[Evidence, ...]
    estimates: Mapping[Tier, Estimate]
    margin_usd: float | None
    flip: Flip
    skipped: tuple[Skipped, ...]
    turn: Turn
    prompt_tokens: int
    prompt_is_exact: bool
    config_fingerprint: str
    weights_fingerprint: str = ""
    """Which weights read the words: what is fitted on top of the evidence belongs to them."""
    was_asked_for: bool = False
    """Whether somebody with the right to say so asked for the tier: a person, or the operator's rule."""
