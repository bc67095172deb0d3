"""What a reader of the ledger answers: calls, turns, sessions and sums of the past."""

from typing import NamedTuple

from router.contract.entry import Line
from router.contract.words import Tier


class RecordedCall(NamedTuple):
    """One request as the ledger has it."""

    line: Line
    decision: str | None = None
    """The JSON of the decision; None where no tier was chosen."""
    should_be: Tier | None = None
    """The tier that the person said it should have had."""
    prompt_text: str | None = None
    """The whole request, where the ledger keeps text; read only with the whole history."""
    places: bytes = b""
    """Where its words are in the table of weights; empty where that is not known, or was not asked for."""


class RecentCalls(NamedTuple):
    """Some of the newest rows of a ledger, oldest first."""

    calls: list[RecordedCall]
    begins_at: float
    """From this moment on, every row was looked at."""
    is_complete: bool
    """Whether that is the moment that was asked for."""


class SessionSums(NamedTuple):
    """One session."""

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
    """Calls whose cost is not known."""
    seconds: float
    moved_up: int = 0
    is_partial: bool = False
    """Whether there are older calls that were not looked at."""


class CallSums(NamedTuple):
    """The calls of one day, client, tier and caller. Without a tier they were refused, or failed before any was chosen."""

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
    """The sum of times to a first token, and how many there were."""
    firsts: int
    interrupted: int
    failed: int
    refused: int
    caller: str


class CallerSums(NamedTuple):
    """What one caller spent, and when it last asked for something; in newer ledgers, with each of its keys."""

    caller: str
    key: str | None
    """The id of the key; None where there was none, or the ledger is older."""
    today_usd: float | None
    month_usd: float | None
    last_at: float


class ExpectedSums(NamedTuple):
    """What the decisions for one tier expected of both; only those where both could have served, and the newest of them."""

    tier: str
    turns: int
    fast_seconds: float
    deep_seconds: float
    scores: float
    """The sum of their scores; below it, of the score times what deep would take."""
    scored_deep_seconds: float
    priced: int | None
    """How many of them have prices on both tiers: the money is theirs alone."""
    fast_usd: float | None
    deep_usd: float | None
    scored_deep_usd: float | None


class Sums(NamedTuple):
    """A ledger, summed up."""

    calls: list[CallSums]
    expected: list[ExpectedSums]
    moved_up: int
    marked_wrong: int
    asked_for: int
    """Turns whose tier the person asked for."""


class RecordedTurn(NamedTuple):
    """The request that began a turn, and how it was decided."""

    id: str
    at: float
    tier: Tier | None
    target: str | None
    because: str | None
    row: tuple[object, ...]
    """The values of `entry.COLUMNS`, then `decision` and `attempts`: all that an explanation needs."""
    caller: str = ""


class TurnsAsked(NamedTuple):
    """Which calls a page shows, newest first. None and empty names leave nothing out."""

    limit: int = 50
    before: int | None = None
    """Only what came before the row with this number."""
    since: float = 0.0
    """In seconds since 1970."""
    caller: str | None = None
    session: str | None = None
    outcome: str | None = None
    target: str | None = None
    tier: str | None = None
    client: str | None = None


class PageRow(NamedTuple):
    """One call, as a page shows it."""

    number: int
    """Its place in the ledger."""
    line: Line
    decided_by: str | None
    """`estimate`, `rule_out`, or the policy that insisted; None where no tier was chosen."""
    words: str | None
    """What the person typed, if the ledger keeps text."""
    tier_before: str | None
    """The tier of the session's call before it; None for the first one, and for calls that a client makes by itself."""

    @property
    def hop(self) -> str | None:
        """Where the session went with this call: `up` to deep or `down` to fast. None where it stayed."""
        return name_hop(self.tier_before, self.line.tier)


def name_hop(before: str | None, after: str | None) -> str | None:
    """`up` from fast to deep, `down` from deep to fast; None where the tier is the same, or one of them is not known."""
    if before is None or after is None or before == after:
        return None
    return "up" if after == Tier.DEEP else "down"


class TurnsPage(NamedTuple):
    """Some calls, newest first. It may hold fewer than asked for, even none, although there are more."""

    rows: list[PageRow]
    next: int | None
    """Ask for those before this number next. None at the end."""


class SessionsPage(NamedTuple):
    """Some sessions, newest first, with the number to go on from."""

    sessions: list[SessionSums]
    next: int | None


class SessionRows(NamedTuple):
    """One session, with its newest calls, oldest first."""

    sums: SessionSums
    rows: list[PageRow]
    left_out: int
    """How many older calls it has."""


class TargetSeries(NamedTuple):
    """How one target did, step by step. None where nobody called it in a step."""

    tier: str | None
    calls: list[int]
    errors: list[int]
    ttft_ms: list[float | None]
    ttft_p95_ms: list[float | None]
    tokens_per_second: list[float | None]
