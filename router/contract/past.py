"""Query results of the ledger: calls, turns, sessions and sums."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from router.contract.entry import Line
from router.contract.words import Tier


class RecordedCall(NamedTuple):
    line: Line
    decision: str | None = None
    """JSON; None where no tier was chosen."""
    should_be: Tier | None = None
    prompt_text: str | None = None
    """The whole request, where the ledger keeps text; read only with the whole history."""


class SpentCall(NamedTuple):
    """A call as `past.worth` adds it up."""

    caller: str
    session: str | None
    kind: str | None
    tier: str | None
    outcome: str
    duration_ms: float
    cost_usd: float | None
    is_unpriced: int
    """Whether it used tokens at unknown cost."""
    decision: str | None = None
    """JSON. Left out of calls on fast within a turn."""
    id: str | None = None
    """Left out of calls within a turn, as is the score."""
    score: float | None = None
    at: float = 0.0
    client: str | None = None
    target: str | None = None
    list_usd: float | None = None
    sequence: int = 0
    """Its place in the ledger."""


class TurnWorth(NamedTuple):
    """What a turn took, cost and saved, as a row of the ledger's table of that name, which explains its columns."""

    sequence: int
    session: str | None
    caller: str
    client: str | None
    target: str | None
    at: float
    begins_at: float
    ends_at: float
    idea: str
    deep_target: str
    redone: str
    is_on_fast: bool
    fast_seconds: float
    fast_usd: float
    turns: int
    fast_turns: int
    calls: int
    fast_calls: int
    compared: int
    failed: int
    refused: int
    priced: int
    unpriced: int
    seconds: float
    usd: float
    list_usd: float
    saved_seconds: float
    saved_usd: float


Fold = Callable[[Iterable[SpentCall], Mapping[str, Tier]], Iterator[TurnWorth]]
"""Makes turns of calls in the order of the ledger, and of the right tiers of marked requests."""


class WorthSums(NamedTuple):
    """Sums of turns."""

    turns: int
    fast_turns: int
    calls: int
    fast_calls: int
    compared: int
    failed: int
    refused: int
    priced: int
    unpriced: int
    seconds: float
    usd: float
    list_usd: float
    saved_seconds: float
    saved_usd: float
    marked: int
    moved_up: int
    asked_for_deep: int
    asked_again: int
    redone_seconds: float
    redone_usd: float


class TurnKindSums(NamedTuple):
    """How turns that Tandem sent to fast ended, by what they were about and the pair of targets."""

    idea: str
    target: str
    deep_target: str
    turns: int
    marked: int
    moved_up: int
    asked_for_deep: int
    asked_again: int


class TurnEvidence(NamedTuple):
    """A turn behind a figure."""

    request: str
    at: float
    caller: str
    client: str | None
    session: str | None
    target: str | None
    because: str | None
    redone: str
    seconds: float
    usd: float
    saved_seconds: float
    saved_usd: float


class LookSums(NamedTuple):
    """Deep's looks at what fast did, of one day."""

    day: str
    looks: int
    fine: int
    objections: int
    """Looks that had some. What is neither came to nothing: late, failed, refused, over budget."""
    acted_on: int
    waved_off: int
    seconds: float
    cost_usd: float | None
    """None if no look has a known cost."""


class SessionSums(NamedTuple):
    caller: str
    session: str
    client: str | None
    first_at: float
    last_at: float
    calls: int
    turns: int
    fast: int
    deep: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    unpriced: int
    seconds: float
    moved_up: int = 0
    is_partial: bool = False
    list_usd: float | None = None
    """What plans paid for, at list price."""


class CallSums(NamedTuple):
    """Calls of one day, client, tier and caller. Without a tier they were refused, or failed before a choice."""

    day: str
    client: str | None
    tier: str | None
    turns: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    unpriced: int
    seconds: float
    first_seconds: float | None
    """The sum of times to first token, and their number."""
    firsts: int
    interrupted: int
    failed: int
    refused: int
    caller: str
    list_usd: float | None = None
    """What plans paid for, at list price."""


class CallerSums(NamedTuple):
    """One caller's spending and last request, per key."""

    caller: str
    key: str | None
    """None without a key."""
    today_usd: float | None
    month_usd: float | None
    last_at: float


class RecordedTurn(NamedTuple):
    """The request that began a turn, with its decision."""

    id: str
    at: float
    tier: Tier | None
    target: str | None
    because: str | None
    row: tuple[object, ...]
    """The values of `entry.COLUMNS`, then `decision` and `attempts`, for an explanation."""
    caller: str = ""


class TurnsAsked(NamedTuple):
    """Filters for a page of turns, newest first: those with a call that matches. None and empty names match all."""

    limit: int = 50
    before: int | None = None
    since: float = 0.0
    """Seconds since 1970."""
    until: float | None = None
    caller: str | None = None
    session: str | None = None
    outcome: str | None = None
    target: str | None = None
    tier: str | None = None
    client: str | None = None


class PageRow(NamedTuple):
    number: int
    """Its place in the ledger."""
    line: Line
    decided_by: str | None
    """`estimate`, `rule_out`, or the policy that insisted; None where no tier was chosen."""
    words: str | None
    """What the person typed, if the ledger keeps text."""
    tier_before: str | None
    """The tier of the session's previous call; None for the first, and for a client's own calls."""

    @property
    def hop(self) -> str | None:
        """See `name_hop`."""
        return name_hop(self.tier_before, self.line.tier)


def name_hop(before: str | None, after: str | None) -> str | None:
    """`up` from fast to deep, `down` from deep to fast; None if unchanged or unknown."""
    if before is None or after is None or before == after:
        return None
    return "up" if after == Tier.DEEP else "down"


class FoundCall(NamedTuple):
    number: int
    """Its place in the ledger."""
    call: RecordedCall
    is_match: bool = True
    """Whether the filters match it; the other calls of its turn are there too."""


class TurnsPage(NamedTuple):
    """Whole turns. A page may be short, even empty, although there are more."""

    calls: list[FoundCall]
    """Those of one session together, oldest first."""
    met: frozenset[int]
    """Places of the matching calls that this page came to: a turn is on the page of its newest one."""
    next: int | None
    """None at the end."""


class SessionsPage(NamedTuple):
    sessions: list[SessionSums]
    next: int | None


class SessionRows(NamedTuple):
    """Newest calls, oldest first."""

    sums: SessionSums
    rows: list[PageRow]
    left_out: int


class TargetSeries(NamedTuple):
    """One target's figures by step; None for a step without calls."""

    tier: str | None
    calls: list[int]
    errors: list[int]
    ttft_ms: list[float | None]
    ttft_p95_ms: list[float | None]
    tokens_per_second: list[float | None]
