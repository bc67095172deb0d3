"""Measured facts about a request and its session. None: not looked at, or not present."""

from collections.abc import Callable, Iterator, Mapping
from itertools import compress, repeat
from math import inf
from operator import attrgetter, is_
from typing import Protocol

from msgspec import Struct

from router.contract.features import Features, Offer
from router.contract.request import RequestView
from router.contract.target import TargetStatus
from router.contract.words import PlanPhase, Tier, TurnKind

_tier_of = attrgetter("target.tier")


class FinishedTurn(Struct, frozen=True):
    """`edits` are calls that changed a file."""

    words: str
    calls: int
    edits: int


class SessionHistory(Struct, frozen=True):
    """The person's turns before this one; `last` has three, oldest first."""

    turns: int = 0
    last: tuple[FinishedTurn, ...] = ()


class Trajectory(Struct, frozen=True):
    """The running turn, from its last calls and their results."""

    calls: int = 0
    edits: int = 0
    failures: int = 0
    """Failed calls since the last success. Reads and edits count neither way."""
    repeats: int = 0
    """Count of the most repeated call."""
    red_runs: int = 0
    is_green: bool = False
    """The last test run passed, after a failed one."""


class SessionPosition(Struct, frozen=True):
    tier: Tier | None = None
    """Tier of the person's last turn."""
    is_running: bool = False
    """This request continues that turn."""
    has_escalated: bool = False
    """Whether the running turn was moved up: then it stays."""
    warm: Mapping[str, int] = {}
    """Tokens of the conversation that are still warm, by target."""
    was_asked_for: bool = False
    """Whether the running turn's tier was asked for: then nothing moves it."""
    effort: str | None = None
    """Reasoning effort of the session's first turn."""
    ask: float | None = None
    """Log-odds of the last ask, inherited by turns that point back at it."""
    is_planned: bool = False
    combine: str = ""
    """What both tiers did for the running turn when it began, as `Combining.words` says it."""


class TierLine(Struct, frozen=True):
    """A first line that asks for a tier; None is "auto"."""

    tier: Tier | None
    is_answered_here: bool = False
    """Whether the message holds nothing else, so that the router answers it."""


class Wish(Struct, frozen=True):
    """A tier for the whole session; None is "auto"."""

    tier: Tier | None
    name: str = ""
    """The exact model name then: another one is newer."""


class Turn(Struct, frozen=True):
    """`ask_text` is what the turn is about: the ask itself, the one that began a tool loop, or the one before a "go on"."""

    kind: TurnKind
    session: str
    client: str
    person_text: str | None = None
    ask_text: str | None = None
    is_planning: bool = False
    goes_on: bool = False
    """The request continues a turn (a person's or subagent's) after a tool's result."""
    goes_on_after: str = ""
    """The client's own message that the turn continues after: "compaction", "a cut answer", "a notice"."""
    compacted_ask: str | None = None
    """The last ask of a conversation to be compacted: the next request may no longer hold it."""
    only_reads: bool = False
    """Whether a subagent only reads and searches."""
    turn_id: str = ""
    is_guessed: bool = False
    """Whether the session has no name, and is known by its beginning."""
    history: SessionHistory = SessionHistory()
    trajectory: Trajectory = Trajectory()
    position: SessionPosition = SessionPosition()
    line: TierLine | None = None
    wish: Wish | None = None
    """What the session was set to, where no newer model name counts."""
    usual_efforts: tuple[str, ...] = ()
    """Reasoning efforts that the client asks for by itself."""
    said: str = ""
    """The end of the assistant's last message before short words; empty where the request does not hold it."""
    plan: PlanPhase | None = None
    """Read only where `combine: plan` is on for the request; None also for work without a plan."""


class TokenCount(Struct, frozen=True):
    """The true count of an estimate is between `low` and `high`."""

    tokens: int
    low: int
    high: int
    is_exact: bool = False
    late_range: tuple[int, int] | None = None
    """The band, where an exact count came too late."""


class TokenCounter(Protocol):
    """Counts tokens off the event loop."""

    async def count(
        self, view: RequestView, within_seconds: float = inf, learn: Callable[[int], None] | None = None
    ) -> TokenCount | None:
        """None if unavailable. Raises `TimeoutError`. `learn` gets even a late count, in another thread."""
        ...

    def prepare(self) -> None:
        """Load what a count needs: one is likely soon."""
        ...

    async def count_or_estimate(self, view: RequestView) -> TokenCount: ...

    def close(self) -> None: ...


class Alias(Struct, frozen=True):
    """A pattern is the client's default; an exact name is an override."""

    name: str
    tier: Tier | None = None
    target: str | None = None
    is_pattern: bool = False


class Signals(Struct, frozen=True):
    turn: Turn
    prompt: TokenCount
    alias: Alias
    statuses: Mapping[str, TargetStatus]
    effort: str | None = None
    features: Features | None = None
    """None if the person typed nothing."""
    earlier: tuple[Features, ...] = ()
    """Those of earlier turns, newest first, where the words may point back at them and their size is not remembered."""
    own_plans: frozenset[str] = frozenset()
    """Plans that the caller's login opens now: in their tier they go first, since others are paid for in addition."""
    shadow: Mapping[str, float] = {}
    """Plans that are used ahead of the clock, with the share of the list price that their tokens are weighed by."""
    read_offer: Callable[[], Offer] | None = None
    """Reads what the assistant offered, where the words may point back at it: few do."""

    def of_tier(self, tier: Tier) -> Iterator[TargetStatus]:
        """Targets of a tier, without a Python step for each: there may be many."""
        statuses = self.statuses.values()
        return compress(statuses, map(is_, map(_tier_of, statuses), repeat(tier)))

    def names_of(self, tier: Tier) -> tuple[str, ...]:
        statuses = self.statuses
        return tuple(compress(statuses, map(is_, map(_tier_of, statuses.values()), repeat(tier))))


RESERVE_TOKENS = 8_000
"""The most, unless configured: clients that allow themselves 64,000 seldom write a tenth of it."""


def reserve_tokens(window_tokens: int, own_limit: int | None = None, most: int = RESERVE_TOKENS) -> int:
    """Tokens kept for an answer: the request's own limit, else a quarter of the window; at most `most`.

    A limit is seldom reached, so it gets half a window at most: else a client that always sends 4,096 could not use a window of
    that size.
    """
    needed = window_tokens // 4 if own_limit is None else min(own_limit, window_tokens // 2)
    return min(needed, most)
