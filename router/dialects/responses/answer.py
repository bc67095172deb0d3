"""Responses API answers: stream ends, usage, and the last event of a failed stream."""

import re

from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.fields import as_count, as_list, as_object, as_text
from router.dialects.responses.failures import write_stream_error
from router.dialects.responses.said_back import say_back
from router.dialects.sse import JSON_TEXT, Frame, StreamEnd, named_frame, split_frames
from router.dialects.timings import read_timings

TELLING = re.compile(
    rb'"(?:response\.(?:completed|incomplete|failed)|error)"|event:\s*(?:response\.(?:completed|incomplete|failed)|error)'
)
"""Matches frames that `read_end` needs. Hosts name an event on its own line, in its data, or both."""
END_MARK = b"response.completed"
find_texts = re.compile(rb'"response\.output_text\.delta"[^\r\n]*?"delta":' + JSON_TEXT).findall
IS_OPEN = re.compile(rb'"call_id"\s*:\s*"|"type"\s*:\s*"mcp_approval_request"')
_INDEXES = re.compile(rb'"output_index"\s*:\s*(\d{1,9})')
_TERMINAL = frozenset({"response.completed", "response.incomplete"})
_FAILED = frozenset({"response.failed", "error"})
_OUR_ID = re.compile(r"resp_[0-9a-f]{27}").fullmatch
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


def is_our_id(response_id: str) -> bool:
    """Whether Tandem wrote the response with this id."""
    return _OUR_ID(response_id) is not None


def write_usage(usage: Usage) -> JsonObject:
    """Every counter is required."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


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


def read_finish(body: JsonObject) -> bool | None:
    if isinstance(body.get("response"), dict):
        return True if body.get("type") == "response.completed" else None
    return body.get("status") == "completed"


def add_to_stream(said: bytes, end: bytes, text: str) -> bytes:
    """A message after all other items, in the response of the last event, too. Later events move on in number."""
    last = split_frames(end)[0].json()
    response = as_object(last.get("response"))
    output = as_list(response.get("output"))
    index = max((int(found) + 1 for found in _INDEXES.findall(said)), default=len(output))
    item, part = _write_message(response, text), _write_part(text)
    place: JsonObject = {"item_id": item["id"], "output_index": index, "content_index": 0}
    events: list[tuple[str, JsonObject]] = [
        ("output_item.added", {"output_index": index, "item": {**item, "status": "in_progress", "content": []}}),
        ("content_part.added", {**place, "part": _write_part("")}),
        ("output_text.delta", {**place, "delta": text, "logprobs": []}),
        ("output_text.done", {**place, "text": text, "logprobs": []}),
        ("content_part.done", {**place, "part": part}),
        ("output_item.done", {"output_index": index, "item": item}),
        # Some servers leave the output empty: a single item in it would be taken for all.
        ("completed", {**last, "response": {**response, "output": [*output, item] if output else output}}),
    ]
    first, frames = last.get("sequence_number"), b""
    for number, (name, fields) in enumerate(events, first if isinstance(first, int) else 0):
        numbered: JsonObject = {"sequence_number": number} if isinstance(first, int) else {}
        kind = f"response.{name}"
        frames += named_frame(kind, {"type": kind, **fields, **numbered})
    return frames


def add_to_whole(body: JsonObject, text: str) -> JsonObject:
    return {"output": [*as_list(body.get("output")), _write_message(body, text)]}


def _write_message(response: JsonObject, text: str) -> JsonObject:
    identity = f"msg_{as_text(response.get('id')).removeprefix('resp_')}_added"
    return {"id": identity, "type": "message", "role": "assistant", "status": "completed", "content": [_write_part(text)]}


def _write_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def write_failure(status: int, message: str, code: str, request_id: str) -> bytes:
    response: JsonObject = {
        **_EMPTY_RESPONSE,
        "id": f"resp_{request_id.removeprefix('req_')}",
        "error": write_stream_error(code, message),
    }
    return named_frame("response.failed", {"type": "response.failed", "sequence_number": 0, "response": response})
