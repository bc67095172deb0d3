"""The record of one admitted request: what the log prints, what the ledger keeps."""

from typing import NamedTuple

from msgspec import Struct


class Attempt(Struct, frozen=True):
    """One call to one target. `error` is the code of what went wrong, None for the one that served."""

    target: str
    status: int | None
    error: str | None
    seconds: float


class Line(Struct, frozen=True, rename={"id": "request_id"}):
    """One admitted request in plain figures: as JSON it is the log's line, and its fields are columns of the ledger.

    Durations come from a monotonic clock. None where the request never came to it. Words of a closed set
    are plain text here.
    """

    id: str
    at: float
    """When it arrived, in seconds since 1970."""
    caller: str
    session: str | None
    turn_kind: str | None
    client: str | None
    dialect: str
    model: str
    streaming: bool
    outcome: str
    status: int
    error: str | None
    tier: str | None
    """Of the target that served or was tried last; before that, the one that was decided on."""
    target: str | None
    because: str | None
    score: float | None
    overhead_ms: float
    ttft_ms: float | None
    duration_ms: float
    tokens_per_second: float | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    tokens_estimated: bool | None
    cost_usd: float | None
    attempts: int
    """How many targets were called. The ledger's column of this name holds them one by one."""


COLUMNS = Line.__struct_fields__[:-1]
"""The fields of a line that are columns of the ledger."""


class Entry(Struct, frozen=True):
    """A line with what only the ledger keeps of a request."""

    line: Line
    decision: str | None
    """The decision as JSON, in the form that `settle.kept` reads."""
    attempts: str
    """The attempts as JSON."""
    prompt_text: str | None = None
    answer_text: str | None = None
    person_text: str | None = None
    """What the person typed. It has no column: it stays in memory, and is in the decision if the config has texts kept."""


class FinishedWork(NamedTuple):
    """A turn that one target finished alone and without an override: what was expected, and what it took."""

    target: str
    score: float
    calls: int
    output_tokens: int
