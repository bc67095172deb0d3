"""Anthropic Messages answers: stream ends, usage, and errors as its clients read them."""

import re

from msgspec.structs import replace

from router.contract.errors import ThreadForgotten
from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.fields import as_count, as_list, as_object
from router.dialects.sse import JSON_TEXT, Frame, StreamEnd, named_frame, split_frames

TELLING = re.compile(rb'"(?:message_(?:start|delta|stop)|error)"|event:\s*(?:message_(?:start|delta|stop)|error)')
"""Matches frames that `read_end` needs. Hosts name an event on its own line, in its data, or both."""
END_MARK = b'"end_turn"'
find_texts = re.compile(rb'"text":' + JSON_TEXT).findall
IS_OPEN = re.compile(rb'"type"\s*:\s*"tool_use"')
_BLOCK_BEGINS = re.compile(rb"content_block_start")
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_TOO_LONG = "prompt is too long"
_COUNT = re.compile(r"\d[\d,]{2,14}")
_MAXIMUM = re.compile(r"(?:maximum|limit|context size|n_ctx)\D{0,60}?(\d[\d,]{2,14})|> (\d[\d,]{2,14})")


def read_end(frames: list[Frame]) -> StreamEnd:
    """How a stream ended. The first frame holds the input tokens, the last ones the rest."""
    end = StreamEnd()
    for frame in frames:
        kind = frame.kind
        if kind == "message_stop":
            end.is_complete = True
        elif kind == "error":
            end.has_failed = True
        elif kind == "message_delta":
            end.usage = later_usage(end.usage, read_usage(frame.json().get("usage")))
        elif kind == "message_start":
            end.usage = first_usage(frame.json()) or end.usage
    return end


def first_usage(event: JsonObject) -> Usage | None:
    """The prompt's usage, from the first frame. Its output count is only the beginning."""
    usage = read_usage(as_object(event.get("message")).get("usage"))
    return replace(usage, output_tokens=0) if usage is not None else None


def later_usage(first: Usage | None, last: Usage | None) -> Usage | None:
    """Merge usages: the last frame has the total, but often only of the output."""
    if first is None or last is None or last.input_tokens:
        return last or first
    return replace(first, output_tokens=last.output_tokens, reasoning_tokens=last.reasoning_tokens)


def read_answer(body: JsonObject) -> Usage | None:
    if "input_tokens" in body:
        return Usage(input_tokens=as_count(body.get("input_tokens")), output_tokens=0)
    if not isinstance(body.get("content"), list):
        raise ValueError("an answer without content")
    return read_usage(body.get("usage"))


def read_usage(value: Json) -> Usage | None:
    """Usage in Messages' terms: `input_tokens` excludes cached tokens, so the three are added."""
    usage = as_object(value)
    if "output_tokens" not in usage and "input_tokens" not in usage:
        return None
    cached = as_count(usage.get("cache_read_input_tokens"))
    written = as_count(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")) + cached + written,
        output_tokens=as_count(usage.get("output_tokens")),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=as_count(as_object(usage.get("output_tokens_details")).get("thinking_tokens")),
    )


def write_refusal(status: int, message: str, code: str, param: str | None, request_id: str) -> JsonObject:
    """An error's body. This dialect has no place for the parameter."""
    kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    error: JsonObject = {"type": kind, "message": message, "code": code}
    if code == ThreadForgotten.code:  # clients look for it there, and send everything again
        error["details"] = {"error_code": code}
    return {"type": "error", "error": error, "request_id": request_id}


def write_failure(status: int, message: str, code: str, request_id: str) -> bytes:
    return named_frame("error", write_refusal(status, message, code, None, request_id))


def write_cut(sent: bytes, usage: Usage) -> bytes:
    """Closes the open block."""
    index: Json = None
    for frame in split_frames(sent):
        if frame.kind in ("content_block_start", "content_block_delta"):
            index = frame.json().get("index")
        elif frame.kind == "content_block_stop":
            index = None
    frames = b"" if index is None else _write_event("content_block_stop", {"index": index})
    stop: JsonObject = {"stop_reason": "max_tokens", "stop_sequence": None}
    frames += _write_event("message_delta", {"delta": stop, "usage": {"output_tokens": usage.output_tokens}})
    return frames + _write_event("message_stop", {})


def read_finish(body: JsonObject) -> bool | None:
    reason = as_object(body.get("delta", body)).get("stop_reason")
    return reason == "end_turn" if reason else None


def add_to_stream(said: bytes, end: bytes, text: str) -> bytes:
    """A block after all others."""
    begun = (frame.json() for frame in split_frames(said, _BLOCK_BEGINS) if frame.kind == "content_block_start")
    index: JsonObject = {"index": max((as_count(body.get("index")) + 1 for body in begun), default=0)}
    frames = _write_event("content_block_start", {**index, "content_block": {"type": "text", "text": ""}})
    frames += _write_event("content_block_delta", {**index, "delta": {"type": "text_delta", "text": text}})
    return frames + _write_event("content_block_stop", index) + end


def add_to_whole(body: JsonObject, text: str) -> JsonObject:
    return {"content": [*as_list(body.get("content")), {"type": "text", "text": text}]}


def _write_event(kind: str, fields: JsonObject) -> bytes:
    return named_frame(kind, {"type": kind, **fields})


def word_too_long(message: str) -> str:
    """A refusal for length. Clients compact on how the message begins."""
    return message if message.startswith(_TOO_LONG) else f"{_TOO_LONG}: {_numbers(message)}. {message}"


def _numbers(message: str) -> str:
    found = _MAXIMUM.search(message)
    if found is not None:
        maximum = _number(found[1] or found[2])
        asked = max(map(_number, _COUNT.findall(message)))
        if asked > maximum:
            return f"{asked} tokens > {maximum} maximum"
    return "the target's window is smaller"


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
