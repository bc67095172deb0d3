"""Chat Completions answers: stream ends, usage, and errors as OpenAI's clients read them."""

import re

from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.fields import as_count, as_list, as_object
from router.dialects.sse import JSON_TEXT, Frame, StreamEnd, data_frame, split_frames
from router.dialects.timings import read_timings

TELLING = re.compile(rb'"(?:finish_reason|usage|error)"\s*:\s*[^n\s]|\[DONE\]')
"""Matches frames that `read_end` needs. Every token's frame has these fields too, but null."""
END_MARK = b'"stop"'
find_texts = re.compile(rb'"content":' + JSON_TEXT).findall
IS_OPEN = re.compile(rb'"(?:tool_calls|function_call)"\s*:\s*[\[{]\s*[^\]}\s]|"index"\s*:\s*[1-9]')
_OF_EVERY_CHUNK = ("id", "object", "created", "model", "service_tier", "system_fingerprint")
_OF_ONE_CHUNK = ("choices", "usage", "timings")
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def read_end(frames: list[Frame]) -> StreamEnd:
    """How a stream ended. A finish reason without `[DONE]` will do: some hosts send no more.

    If one choice has finished, every choice that began must.
    """
    end, begun, finished, is_done = StreamEnd(), set[int](), set[int](), False
    for frame in frames:
        if frame.data == b"[DONE]":
            is_done = True
            continue
        body = frame.json()
        if body.get("error"):
            end.has_failed = True
        if usage := body.get("usage"):
            end.usage = read_usage(usage)
        if timings := body.get("timings"):
            end.timings = read_timings(timings)
        for choice in map(as_object, as_list(body.get("choices"))):
            index = as_count(choice.get("index"))
            begun.add(index)
            if choice.get("finish_reason"):
                finished.add(index)
    end.is_complete = begun == finished if finished else is_done
    return end


def has_several_choices(body: JsonObject) -> bool:
    """Whether a request asks for several answers: by `n`, or by a list of prompts in the legacy endpoint."""
    return as_count(body.get("n")) > 1 or len(as_list(body.get("prompt"))) > 1


def read_answer(body: JsonObject) -> Usage | None:
    if not isinstance(body.get("choices"), list):
        raise ValueError("an answer without choices")
    return read_usage(body.get("usage"))


def read_usage(value: Json) -> Usage | None:
    """Usage in chat's terms: `prompt_tokens` includes cached tokens."""
    if not isinstance(value, dict) or "prompt_tokens" not in value:
        return None
    cached = written = reasoning = 0
    if prompt := value.get("prompt_tokens_details"):
        prompt = as_object(prompt)
        cached, written = as_count(prompt.get("cached_tokens")), as_count(prompt.get("cache_write_tokens"))
    if completion := value.get("completion_tokens_details"):
        reasoning = as_count(as_object(completion).get("reasoning_tokens"))
    return Usage(as_count(value.get("prompt_tokens")), as_count(value.get("completion_tokens")), cached, written, reasoning)


def write_refusal(status: int, message: str, code: str, param: str | None, request_id: str) -> JsonObject:
    kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code, "request_id": request_id}}


def write_failure(status: int, message: str, code: str, request_id: str) -> bytes:
    return data_frame(write_refusal(status, message, code, None, request_id))


def write_cut(sent: bytes, usage: Usage) -> bytes:
    """Finishes every answer that has begun. Clients that asked for usage do without."""
    chunk: JsonObject = {}
    begun: dict[int, JsonObject] = {}
    for frame in split_frames(sent):
        for choice in map(as_object, as_list(frame.json().get("choices"))):
            chunk, begun[as_count(choice.get("index"))] = frame.json(), choice
    open_choices = {index: choice for index, choice in begun.items() if not choice.get("finish_reason")}
    ends: list[Json] = [
        {"index": index, **({"text": ""} if "text" in choice else {"delta": {}}), "finish_reason": "length"}
        for index, choice in open_choices.items()
    ]
    head = {name: value for name, value in chunk.items() if name not in _OF_ONE_CHUNK}
    return data_frame({**head, "choices": ends}) + b"data: [DONE]\n\n"


def read_finish(body: JsonObject) -> bool | None:
    choices = as_list(body.get("choices"))
    reason = as_object(choices[0]).get("finish_reason") if choices else None
    return (reason == "stop" and len(choices) == 1) if reason else None


def add_to_stream(said: bytes, end: bytes, text: str) -> bytes:
    """A chunk before the one with the finish reason, unless that has the last words: then the text follows them."""
    chunk = split_frames(end)[0].json()
    choice = as_object(as_list(chunk.get("choices"))[0])
    delta = as_object(choice.get("delta"))
    if isinstance(last := delta.get("content"), str) and last:
        return data_frame({**chunk, "choices": [{**choice, "delta": {**delta, "content": f"{last}\n\n{text}"}}]})
    head: JsonObject = {name: chunk[name] for name in _OF_EVERY_CHUNK if name in chunk}
    added: JsonObject = {"index": 0, "delta": {"content": f"\n\n{text}"}, "finish_reason": None}
    return data_frame({**head, "choices": [added]}) + end


def add_to_whole(body: JsonObject, text: str) -> JsonObject:
    choice = as_object(as_list(body.get("choices"))[0])
    message = as_object(choice.get("message"))
    said = message.get("content") or ""
    content: Json = [*said, {"type": "text", "text": text}] if isinstance(said, list) else f"{said}\n\n{text}"
    return {"choices": [{**choice, "message": {**message, "content": content}}]}


def word_too_long(message: str) -> str:
    """Unchanged: clients go by the code."""
    return message
