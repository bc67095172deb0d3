"""Responses API answers: stream ends, usage, and the last event of a failed stream."""

import re

from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.composer import named_frame
from router.dialects.fields import as_count, as_object
from router.dialects.responses.failures import write_stream_error
from router.dialects.responses.said_back import say_back
from router.dialects.sse import Frame, StreamEnd
from router.dialects.timings import read_timings

TELLING = re.compile(
    rb'"(?:response\.(?:completed|incomplete|failed)|error)"|event:\s*(?:response\.(?:completed|incomplete|failed)|error)'
)
"""Matches frames that `read_end` needs. Hosts name an event on its own line, in its data, or both."""
_TERMINAL = frozenset({"response.completed", "response.incomplete"})
_FAILED = frozenset({"response.failed", "error"})
_EMPTY_RESPONSE: JsonObject = {
    "object": "response",
    "created_at": 0,
    "completed_at": None,
    "status": "failed",
    "model": "",
    "output": [],
    "incomplete_details": None,
    **say_back({}),
    "usage": None,
}
"""Fields that typed clients expect even in a failed response."""


def read_end(frames: list[Frame]) -> StreamEnd:
    end = StreamEnd()
    for frame in frames:
        kind = frame.kind
        if kind in _TERMINAL or kind == "response.failed":
            end.is_complete = kind in _TERMINAL
            end.usage = read_usage(as_object(frame.json().get("response")).get("usage"))
            end.timings = read_timings(frame.json().get("timings"))
        if kind in _FAILED:
            end.has_failed = True
    return end


def read_answer(body: JsonObject) -> Usage | None:
    if not isinstance(body.get("output"), list) and body.get("object") != "response":
        raise ValueError("an answer without output")
    return read_usage(body.get("usage"))


def read_usage(value: Json) -> Usage | None:
    """Usage in Responses' terms: `input_tokens` includes cached tokens."""
    usage = as_object(value)
    if "input_tokens" not in usage:
        return None
    details = as_object(usage.get("input_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")),
        output_tokens=as_count(usage.get("output_tokens")),
        cached_tokens=as_count(details.get("cached_tokens")),
        cache_write_tokens=as_count(details.get("cache_write_tokens")),
        reasoning_tokens=as_count(as_object(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )


def write_failure(status: int, message: str, code: str, request_id: str) -> bytes:
    response: JsonObject = {
        **_EMPTY_RESPONSE,
        "id": f"resp_{request_id.removeprefix('req_')}",
        "error": write_stream_error(code, message),
    }
    return named_frame("response.failed", {"type": "response.failed", "sequence_number": 0, "response": response})
