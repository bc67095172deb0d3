"""Measured facts about a request and its place in a session. None means unknown: not looked at, or not present."""

from collections.abc import Callable, Iterator, Mapping
from itertools import compress, repeat
from math import inf
from operator import attrgetter, is_
from typing import Protocol

from msgspec import Struct

from router.contract.features import Features
from router.contract.request import RequestView
from router.contract.target import TargetStatus
from router.contract.words import Tier, TurnKind

_tier_of = attrgetter("target.tier")


class FinishedTurn(Struct, frozen=True):
    """A turn that is over: what was asked, how often tools were called for it, and how many of those calls changed a file."""

    words: str
    calls: int
    edits: int


class SessionHistory(Struct, frozen=True):
    """The session before this turn: how many turns the person took, and the last three of them, oldest first."""

    turns: int = 0
    last: tuple[FinishedTurn, ...] = ()


class Trajectory(Struct, frozen=True):
    """How the running turn has gone so far, read from its last calls and what they gave back."""

    calls: int = 0
    edits: int = 0
    failures: int = 0
    """Calls that failed since one last went well. Looks and changes to files count neither way."""
    repeats: int = 0
    """How often the same call was made, of the one made most."""
    red_runs: int = 0
    """Test runs that failed."""
    is_green: bool = False
    """Whether the last test run passed, after one that had failed."""
    same_file_edits: int = 0
    """How often the same file was changed, of the one changed most."""
    files: int = 0
    """How many files were changed."""
    written_chars: int = 0
    """How much was written into them."""
    unevenness: float = 0.0
    """How unevenly the agent writes between its calls (`rescue.py`)."""


class SessionPosition(Struct, frozen=True):
    """Where a session stands, as it is remembered."""

    tier: Tier | None = None
    """Where the person's last turn went."""
    is_running: bool = False
    """Whether that turn is the one that this request goes on with."""
    has_escalated: bool = False
    """Whether the running turn was moved up: then it stays."""
    warm: Mapping[str, int] = {}
    """Tokens of the conversation that each target still has warm."""
    was_asked_for: bool = False
    """Whether somebody asked for the running turn's tier: then nothing moves it."""
    effort: str | None = None
    """The reasoning effort that the session began with."""
    ask: float | None = None
    """The log-odds of a long task of the last ask: what a turn takes that only points back at it."""
    is_planned: bool = False
    """Whether that ask wanted a plan."""


class Turn(Struct, frozen=True):
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
    session_override: Tier | None = None
    goes_on: bool = False
    """Whether the request goes on with a turn after a tool's result, the person's or a subagent's."""
    goes_on_after: str = ""
    """What the turn goes on after, where that is a message of the client's own: "compaction", "a cut answer", "a notice"."""
    compacted_ask: str | None = None
    """What was asked last in a conversation that is to be compacted. Its next request may not say it any more."""
    only_reads: bool = False
    """Whether a subagent only reads and searches."""
    turn_id: str = ""
    """The client's own name for the turn, where it has one."""
    is_guessed: bool = False
    """Whether the session has no name of its own: it is told by its beginning."""
    history: SessionHistory = SessionHistory()
    trajectory: Trajectory = Trajectory()
    position: SessionPosition = SessionPosition()
    heeds_line: bool = True
    """Whether a first line counts: something newer may have been asked for."""
    heeds_name: bool = True
    """Whether an exact model name counts, for the same reason."""
    usual_efforts: tuple[str, ...] = ()
    """The reasoning efforts that the client asks for by itself."""


class TokenCount(Struct, frozen=True):
    """Prompt tokens. An estimate carries its band: the true count lies between `low` and `high`."""

    tokens: int
    low: int
    high: int
    is_exact: bool = False
    late_range: tuple[int, int] | None = None
    """The band again, where an exact count was wanted and was not ready in time."""


class TokenCounter(Protocol):
    """Counts tokens off the event loop."""

    async def count(
        self, view: RequestView, within_seconds: float = inf, learn: Callable[[int], None] | None = None
    ) -> TokenCount | None:
        """The exact count; None where none is available.

        Raises `TimeoutError` where it takes longer. `learn` is called with the count, in another thread, even if it comes late.
        """
        ...

    def prepare(self) -> None:
        """Have everything loaded that a count needs: one is likely soon."""
        ...

    async def count_or_estimate(self, view: RequestView) -> TokenCount:
        """The exact count, or else the estimate."""
        ...

    def close(self) -> None:
        """Let go of what was loaded."""
        ...


class Alias(Struct, frozen=True):
    """What a model name means. A pattern is the client's default; an exact name is an override."""

    name: str
    tier: Tier | None = None
    target: str | None = None
    is_pattern: bool = False


class Signals(Struct, frozen=True):
    """Everything that a policy may look at besides the request itself."""

    turn: Turn
    prompt: TokenCount
    alias: Alias
    statuses: Mapping[str, TargetStatus]
    effort: str | None = None
    features: Features | None = None
    """The person's words in numbers; None when the person typed nothing."""
    earlier: tuple[Features, ...] = ()
    """Those of the turns before, the newest first, where the words may point back at them and nobody remembers their size."""

    def of_tier(self, tier: Tier) -> Iterator[TargetStatus]:
        """The targets of a tier, in the order of the config, without a step of Python for each: there may be many."""
        statuses = self.statuses.values()
        return compress(statuses, map(is_, map(_tier_of, statuses), repeat(tier)))

    def names_of(self, tier: Tier) -> tuple[str, ...]:
        """Their names."""
        statuses = self.statuses
        return tuple(compress(statuses, map(is_, map(_tier_of, statuses.values()), repeat(tier))))


RESERVE_TOKENS = 8_000
"""Never more than this, unless the config says otherwise: clients that allow themselves 64,000 seldom write a tenth of it."""


def reserve_tokens(window_tokens: int, own_limit: int | None = None, most: int = RESERVE_TOKENS) -> int:
    """What an answer needs: the request's own limit, else a quarter of the window; never more than `most`.

    A limit is the most that an answer may have, and not what it will have: half a window is enough for it. Otherwise a client
    that always sends 4,096 could not use a window of that size at all.
    """
    needed = window_tokens // 4 if own_limit is None else min(own_limit, window_tokens // 2)
    return min(needed, most)
