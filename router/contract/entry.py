"""The record of one admitted request, for the log and the ledger."""

from collections.abc import Iterable
from typing import NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, fields

from router.contract.usage import Usage


class Pace(Struct, frozen=True, omit_defaults=True):
    """A target's pace as shown by one call; None where it showed nothing."""

    model: str
    ttft_seconds: float | None = None
    """From the call to its first token, including any wait."""
    tokens_per_second: float | None = None
    """None where the caller read slowly."""
    prefill_tokens_per_second: float | None = None
    """Only as reported by the engine."""


PLAN, MIXED = "plan", "mixed"
"""The `billing` of tokens that a caller's own plan pays for, and of requests that used others too."""


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One call to one target, as the ledger keeps it."""

    target: str
    """Its name."""
    status: int | None
    """HTTP status; null without an answer."""
    error: str | None
    """Error code, if any."""
    seconds: float
    """How long it took."""
    usage: Usage | None = None
    """Tokens; `is_estimated` if unreported."""
    cost_usd: float | None = None
    """0 where nothing is billed; absent if unknown."""
    billing: str | None = None
    """`plan` where the caller's plan paid."""
    list_usd: float | None = None
    """A plan's tokens at list price."""
    is_question: bool = False
    """Asked for an opinion or a look."""
    is_look: bool = False
    """Asked for a look."""
    pace: Pace | None = None
    """Its speed."""


class Line(Struct, frozen=True, rename={"id": "request_id"}):
    """One admitted request in plain figures: the log's line as JSON, and columns of the ledger.

    Durations come from a monotonic clock. None: the request never got there. Words of a closed set are plain text.
    """

    id: str
    """As in `x-tandem-request-id`."""
    at: float
    """Arrival, in seconds since 1970."""
    caller: str
    """Who asked."""
    key: str | None
    """Id of the caller's key."""
    job: str | None
    """Its background job."""
    session: str | None
    """Its conversation."""
    turn_kind: str | None
    """ask, follow_up, tool_loop, side, compaction, subagent or prewarm."""
    client: str | None
    """The recognised client."""
    dialect: str
    """chat, responses, messages or completions."""
    model: str
    """As asked for."""
    streaming: bool
    """Whether a stream was asked for."""
    outcome: str
    """How it ended."""
    status: int
    """As the caller saw it; 499 if it left."""
    error: str | None
    """Error code."""
    tier: str | None
    """Served, tried last, or decided on."""
    target: str | None
    """Served or tried last."""
    because: str | None
    """The decision or failure in one sentence."""
    score: float | None
    """Chance of a long task."""
    overhead_ms: float
    """Until it first waits for others."""
    ttft_ms: float | None
    """From arrival to a stream's first token."""
    duration_ms: float
    """From arrival to the end."""
    tokens_per_second: float | None
    """How fast the answer was written."""
    input_tokens: int | None
    """With cached ones."""
    cached_tokens: int | None
    """Read from the provider's cache."""
    output_tokens: int | None
    """With reasoning ones."""
    reasoning_tokens: int | None
    """Those of reasoning."""
    tokens_estimated: bool | None
    """Whether some are estimates."""
    cost_usd: float | None
    """Of all attempts; NULL if unknown."""
    attempts: int
    """Number of targets called; in the ledger, a list of them."""
    billing: str | None = None
    """`plan` if that paid for all tokens, `mixed` for some."""
    list_usd: float | None = None
    """A plan's tokens at list price."""
    combined: str | None = None
    """What both tiers did for the task."""


_COUNTED = "attempts"
COLUMNS = tuple(name for name in Line.__struct_fields__ if name != _COUNTED)
LINE_FIELDS = (*COLUMNS, _COUNTED)
"""What `read_line` takes, in its order."""
_COUNTED_AT = Line.__struct_fields__.index(_COUNTED)
_NAMES = {field.name: field.encode_name for field in fields(Line)}
_READ = tuple(_NAMES[name] for name in LINE_FIELDS)


def values_of(line: Line) -> tuple[object, ...]:
    """A line's values, in the order of the columns."""
    values = astuple(line)
    return values[:_COUNTED_AT] + values[_COUNTED_AT + 1 :]


def read_line(values: Iterable[object]) -> Line | None:
    """A line of the columns' values and the number of attempts; None if they are not a line's."""
    try:
        return msgspec.convert(dict(zip(_READ, values, strict=True)), Line, strict=False)
    except msgspec.ValidationError:
        return None


def column_types() -> dict[str, tuple[type, bool]]:
    """Type and nullability by column; all stores' tables follow from this."""
    hints = get_type_hints(Line)
    kinds = {name: get_args(hints[name]) or (hints[name],) for name in COLUMNS}
    return {name: (of_one[0], type(None) in of_one) for name, of_one in kinds.items()}


class Entry(Struct, frozen=True):
    """A line with what only the ledger keeps."""

    line: Line
    decision: str | None
    """JSON in the form of `settle.kept`."""
    attempts: str
    """JSON."""
    prompt_text: str | None = None
    answer_text: str | None = None
    person_text: str | None = None
    """What the person typed. Kept in memory only, and in the decision if the config keeps texts."""


class PastCall(NamedTuple):
    at: float
    """Arrival, in seconds since 1970."""
    attempt: Attempt
    pace: Pace


class FinishedWork(NamedTuple):
    """A turn that one target finished alone and without an override: expected and actual work."""

    target: str
    score: float
    calls: int
    output_tokens: int
    deep_target: str = ""
    """The deep target that would have served instead of a fast one; empty if unknown."""
    has_failed: bool = False
    """Whether it was redone: see `past.worth.Redone`."""
