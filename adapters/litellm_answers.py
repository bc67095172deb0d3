"""litellm's objects → Chat Completions bytes, without litellm's additions."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson

from router.contract.relay import Headers
from router.contract.request import JsonObject

DONE = b"data: [DONE]\n\n"
_HEAD = ("id", "object", "created", "model", "service_tier", "system_fingerprint")
_MESSAGE = tuple("role content refusal function_call annotations audio reasoning_content reasoning thinking_blocks".split())
_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details")
_PASSED_HEADERS = re.compile(r"x-ratelimit-|anthropic-ratelimit-|x-request-id$|request-id$|retry-after")
_FOREIGN = "llm_provider-"
_SAYS_NOTHING = ("event:", ":", "id:", "retry:")


class ChunkWriter:
    """All chunks get the id, time and model of the first."""

    def __init__(self) -> None:
        self._head: JsonObject = {}

    def frame(self, chunk: Any) -> bytes:
        """A chunk as a frame, without usage; empty if it says nothing."""
        dump = chunk.model_dump(exclude_none=True, warnings=False)
        if not self._head:
            self._head = {**{key: dump[key] for key in _HEAD if key in dump}, "object": "chat.completion.chunk"}
        choices: list[Any] = [_read_choice(choice) for choice in dump.get("choices") or ()]
        if not any(choice["delta"] or choice["finish_reason"] for choice in choices):
            return b""
        return self._write({"choices": choices})

    def usage_frame(self, usage: JsonObject) -> bytes:
        return self._write({"choices": [], "usage": usage})

    def _write(self, rest: JsonObject) -> bytes:
        return b"data: " + orjson.dumps({**self._head, **rest}) + b"\n\n"


def _read_choice(choice: dict[str, Any]) -> dict[str, Any]:
    delta = choice.get("delta") or {}
    kept = {key: delta[key] for key in _MESSAGE if key in delta and delta[key] != []}
    if calls := delta.get("tool_calls"):
        kept["tool_calls"] = [_read_call(call, is_fragment=True) for call in calls]
    read = {"index": choice.get("index", 0), "delta": kept, "finish_reason": choice.get("finish_reason")}
    return {**read, "logprobs": choice["logprobs"]} if choice.get("logprobs") else read


def _read_call(call: dict[str, Any], *, is_fragment: bool = False) -> dict[str, Any]:
    """Keep `type` on the first fragment, which has the id: litellm writes it on every one."""
    named = ("id", "type") if call.get("id") else ()
    placed = ("index",) if is_fragment else ()
    return {key: call[key] for key in (*placed, *named, "function", "custom") if key in call}


def write_whole(answer: Any) -> bytes:
    return orjson.dumps(_read_whole(answer))


def write_as_stream(answer: Any) -> bytes:
    """A whole answer as stream frames, for providers whose streams litellm cannot read."""
    whole = _read_whole(answer)
    head = {**{key: whole[key] for key in _HEAD if key in whole}, "object": "chat.completion.chunk"}
    frames = []
    for choice in whole["choices"]:
        delta = dict(choice["message"])
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
        for said, finish in ((delta, None), ({}, choice["finish_reason"])):
            frames.append({**head, "choices": [{"index": choice["index"], "delta": said, "finish_reason": finish}]})
    if "usage" in whole:
        frames.append({**head, "choices": [], "usage": whole["usage"]})
    return b"".join(b"data: " + orjson.dumps(frame) + b"\n\n" for frame in frames) + DONE


def _read_whole(answer: Any) -> dict[str, Any]:
    dump = answer.model_dump(exclude_none=True, warnings=False)
    choices = []
    for choice in dump.get("choices") or ():
        message = choice.get("message") or {}
        said = {key: message[key] for key in _MESSAGE if key in message and message[key] != []}
        kept: JsonObject = {"role": "assistant", "content": None, **said}
        if calls := message.get("tool_calls"):
            kept["tool_calls"] = [_read_call(call) for call in calls]
        finish = choice.get("finish_reason")
        if finish == "stop" and calls:
            finish = "tool_calls"  # litellm does not map this provider's reason
        read = {"index": choice.get("index", 0), "message": kept, "finish_reason": finish}
        choices.append({**read, "logprobs": choice.get("logprobs")})
    body: dict[str, Any] = {key: dump[key] for key in _HEAD if key in dump}
    body |= {"object": "chat.completion", "choices": choices}
    if usage := read_usage(answer):
        body["usage"] = usage
    return body


def read_usage(answer: Any) -> JsonObject | None:
    usage = getattr(answer, "usage", None)
    if usage is None:
        return None
    dump = usage.model_dump(exclude_none=True, warnings=False)
    return {key: dump[key] for key in _USAGE if dump.get(key) not in (None, {})}


def stream_usage(stream: Any, last: Any) -> JsonObject | None:
    """A stream's usage, only if the provider sent it: otherwise litellm counts tokens itself and invents details."""
    usage = read_usage(last)
    if usage is None:
        return None
    stated = [said for chunk in getattr(stream, "chunks", ()) if (said := read_usage(chunk))]
    return {key: value for key, value in usage.items() if any(key in said for said in stated)} or None


def answer_headers(answer: Any) -> Headers:
    hidden = getattr(answer, "_hidden_params", None) or {}
    return pick_headers(hidden.get("additional_headers") or {})


def pick_headers(headers: Mapping[str, Any]) -> Headers:
    """The provider's headers about limits, waits and ids."""
    named = {name.lower().removeprefix(_FOREIGN): str(value) for name, value in headers.items()}
    return tuple((name, value) for name, value in named.items() if _PASSED_HEADERS.match(name))


def skip_idle_lines(stream: Any) -> None:
    """Hide blank and event-name lines from litellm, which builds a whole chunk from each: two of three lines."""
    reader = getattr(stream, "completion_stream", None)
    lines = getattr(reader, "streaming_response", None)
    if hasattr(lines, "__aiter__") and hasattr(lines, "aclose"):
        reader.streaming_response = _Telling(lines)  # type: ignore[union-attr]  # it has lines


class _Telling:
    """Only the data lines of a stream. litellm closes streams through it."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        while True:
            line = await self._lines.__anext__()
            if not isinstance(line, str) or (line and not line.startswith(_SAYS_NOTHING)):
                return line

    async def aclose(self) -> None:
        await self._lines.aclose()
