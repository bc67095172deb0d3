"""What a Chat Completions answer says of itself: how its stream ended, and what it used."""

from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.fields import as_count, as_list, as_object
from router.dialects.sse import Frame, StreamEnd


def read_end(frames: list[Frame]) -> StreamEnd:
    """How a stream ended, from its last frames. A finish reason without `[DONE]` is an end: some hosts send no more."""
    end = StreamEnd()
    for frame in frames:
        if frame.data == b"[DONE]":
            end.is_complete = True
            continue
        body = frame.json()
        if body.get("error"):
            end.has_failed = True
        if body.get("usage"):
            end.usage = read_usage(body.get("usage"))
        if any(as_object(choice).get("finish_reason") for choice in as_list(body.get("choices"))):
            end.is_complete = True
    return end


def read_answer(body: JsonObject) -> Usage | None:
    """The usage of a whole answer; raises ValueError when it is not a valid answer of this dialect."""
    if not isinstance(body.get("choices"), list):
        raise ValueError("an answer without choices")
    return read_usage(body.get("usage"))


def read_usage(value: Json) -> Usage | None:
    """Usage as this dialect gives it: `prompt_tokens` includes the cached ones."""
    usage = as_object(value)
    if "prompt_tokens" not in usage:
        return None
    prompt = as_object(usage.get("prompt_tokens_details"))
    completion = as_object(usage.get("completion_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("prompt_tokens")),
        output_tokens=as_count(usage.get("completion_tokens")),
        cached_tokens=as_count(prompt.get("cached_tokens")),
        cache_write_tokens=as_count(prompt.get("cache_write_tokens")),
        reasoning_tokens=as_count(completion.get("reasoning_tokens")),
    )
