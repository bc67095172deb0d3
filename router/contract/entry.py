"""The record of one admitted request: what the log prints, what the ledger keeps."""

from collections.abc import Iterable
from typing import NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Struct

from router.contract.usage import Usage


class Pace(Struct, frozen=True, omit_defaults=True):
    """What one call showed of its target's own pace. None where it showed nothing of that."""

    model: str
    ttft_seconds: float | None = None
    """From the call to its first token, including any wait."""
    tokens_per_second: float | None = None
    """Not where the caller read slowly."""
    prefill_tokens_per_second: float | None = None
    """Only as the engine itself says."""


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One call to one target, as the ledger keeps it."""

    target: str
    """Its name."""
    status: int | None
    """What it answered; null for no answer."""
    error: str | None
    """The code of what went wrong; null for the one that served."""
    seconds: float
    """How long it took."""
    usage: Usage | None = None
    """The tokens: `input_tokens` (with the cached ones), `output_tokens` and, unless they are 0, `cached_tokens`,
    `cache_write_tokens`, `reasoning_tokens`. `is_estimated` is there where the target did not say them. Absent where nothing is
    billed: the target refused, or was never reached."""
    cost_usd: float | None = None
    """USD. Absent (unknown) where tokens were used and the target has no price; 0 where nothing is billed."""
    is_question: bool = False
    """Whether the target was only asked for a second opinion on the turn."""
    pace: Pace | None = None
    """How fast the target was: `model` (the name that it was asked for), `ttft_seconds`, `tokens_per_second` and, where the
    engine itself says so, `prefill_tokens_per_second`. Speeds are learned from this after a restart."""


class Line(Struct, frozen=True, rename={"id": "request_id"}):
    """One admitted request in plain figures: as JSON it is the log's line, and its fields are columns of the ledger.

    Durations come from a monotonic clock. None where the request never came to it. Words of a closed set
    are plain text here.
    """

    id: str
    at: float
    """When it arrived, in seconds since 1970."""
    caller: str
    key: str | None
    """The id of the key by which the caller is known. None where callers need no key."""
    job: str | None
    """The background job that the request is an attempt of. None for all others."""
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
    """Of all attempts. None where the cost of one of them is not known: a part of it would pass for the whole."""
    attempts: int
    """How many targets were called. The ledger's column of this name holds them one by one."""


COLUMNS = Line.__struct_fields__[:-1]
"""The fields of a line that are columns of the ledger."""


def read_line(values: Iterable[object]) -> Line | None:
    """A line out of values in the order of its fields, as a file or another router has them; None if they are not a line's."""
    try:
        return msgspec.convert(dict(zip(Line.__struct_encode_fields__, values, strict=True)), Line, strict=False)
    except msgspec.ValidationError:
        return None


def column_types() -> dict[str, tuple[type, bool]]:
    """Type of each column, and whether it may be null. Tables of every store follow from this: a field is a column."""
    hints = get_type_hints(Line)
    kinds = {name: get_args(hints[name]) or (hints[name],) for name in COLUMNS}
    return {name: (of_one[0], type(None) in of_one) for name, of_one in kinds.items()}


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
    places: bytes | None = None
    """Where a person's turn began: the places of its words in the table of weights, as `contract.features` packs them. The
    ledger keeps them in a table of their own, for the newest turns."""


class PastCall(NamedTuple):
    """A call of the past, and what it showed of its target's pace."""

    at: float
    """When its request arrived, in seconds since 1970."""
    attempt: Attempt
    pace: Pace


class FinishedWork(NamedTuple):
    """A turn that one target finished alone and without an override: what was expected, and what it took."""

    target: str
    score: float
    calls: int
    output_tokens: int
    deep_target: str = ""
    """Where a fast target served it: the deep one that would have. Empty where it is not known."""
    has_failed: bool = False
    """Whether deep had to take it over, the person said at once that it was wrong, or marked it with `tandem wrong deep`."""
