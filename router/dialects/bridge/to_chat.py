"""Draft → Chat Completions."""

from collections.abc import Iterator

from router.contract.request import Json, JsonObject
from router.dialects.bridge.draft import (
    Called,
    Draft,
    File,
    Image,
    Line,
    Part,
    Returned,
    Said,
    Text,
    Thought,
    Tool,
    texts,
)
from router.dialects.bridge.seal import unseal
from router.dialects.bridge.writing import Writing, marked_error, optional


def write(draft: Draft, writing: Writing) -> JsonObject:
    """The body for a target that speaks chat."""
    draft.check_pairs()
    writing.check_choice(draft)
    body: JsonObject = {
        "model": writing.model,
        "messages": _Messages(draft, writing).written,
        "tools": optional([_write_tool(tool) for tool in draft.tools]),
        "tool_choice": _write_choice(draft),
        "parallel_tool_calls": draft.parallel if draft.tools else None,
        "response_format": _write_schema(draft),
        writing.quirks.limit_field: draft.max_tokens,
        "stop": optional(list[Json](draft.stop)),
        "temperature": draft.temperature,
        "top_p": draft.top_p,
        "reasoning_effort": writing.effort(draft),
        "verbosity": draft.verbosity,
        "metadata": draft.metadata,
        "safety_identifier": draft.user,
        "prompt_cache_key": draft.cache_key,
        "service_tier": draft.service_tier,
    }
    if draft.is_streaming:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return writing.finish(body, draft)


class _Messages:
    """The conversation, with calls gathered in one message and their results right behind it."""

    def __init__(self, draft: Draft, writing: Writing) -> None:
        self.written: list[Json] = []
        self._writing = writing
        self._seen: list[Part] = []
        self._thought: str | None = None
        if draft.system:
            self.written.append({"role": "system", "content": "\n\n".join(draft.system)})
        for line in _results_first(draft.lines):
            if not isinstance(line, Returned):
                self._show_seen()
            match line:
                case Said("assistant", parts):
                    self._say(parts)
                case Said(role, parts):
                    self.written.append({"role": role, "content": _write_parts(parts)})
                case Called():
                    self._call(line)
                case Returned():
                    self._return(line)
                case Thought(sealed):
                    state = unseal(sealed, writing.target.name) or {}
                    text = state.get("reasoning_content")
                    self._thought = text if isinstance(text, str) and writing.quirks.replays_reasoning else None
        self._show_seen()

    def _assistant(self) -> JsonObject:
        """The assistant's message that is still open: nothing has answered it yet."""
        last = self.written[-1] if self.written else None
        if isinstance(last, dict) and last.get("role") == "assistant":
            return last
        message: JsonObject = {"role": "assistant", "content": None}
        if self._thought:
            message["reasoning_content"], self._thought = self._thought, None
        self.written.append(message)
        return message

    def _say(self, parts: tuple[Part, ...]) -> None:
        message = self._assistant()
        message["content"] = "\n".join(
            text for text in (message.get("content"), texts(parts)) if isinstance(text, str) and text
        )

    def _call(self, called: Called) -> None:
        calls = self._assistant().setdefault("tool_calls", [])
        assert isinstance(calls, list)
        function: JsonObject = {"name": called.name, "arguments": called.arguments}
        calls.append({"id": called.call_id, "type": "function", "function": function})

    def _return(self, returned: Returned) -> None:
        pictures = [part for part in returned.parts if not isinstance(part, Text)]
        text = marked_error(texts(returned.parts), is_error=returned.is_error)
        if pictures:
            self._seen.append(Text(f"What the tool call {returned.call_id} returned:"))
            self._seen.extend(pictures)
            text = text or "See the next message."
        self.written.append({"role": "tool", "tool_call_id": returned.call_id, "content": text})

    def _show_seen(self) -> None:
        """Pictures from tools: a tool's message holds only text, so the user shows them, behind all results."""
        if self._seen:
            self.written.append({"role": "user", "content": _write_parts(tuple(self._seen))})
            self._seen = []


def _results_first(lines: list[Line]) -> Iterator[Line]:
    """The lines, with what was said between calls and their results moved behind the results: here nothing may stand there."""
    answered = {line.call_id for line in lines if isinstance(line, Returned)}
    waiting: set[str] = set()
    held: list[Line] = []
    for line in lines:
        if isinstance(line, Said) and line.role != "assistant" and waiting:
            held.append(line)
            continue
        yield line
        if isinstance(line, Called) and line.call_id in answered:
            waiting.add(line.call_id)
        elif isinstance(line, Returned):
            waiting.discard(line.call_id)
            if not waiting:
                yield from held
                held.clear()
    yield from held


def _write_parts(parts: tuple[Part, ...]) -> Json:
    if all(isinstance(part, Text) for part in parts):
        return texts(parts)
    return [_write_part(part) for part in parts]


def _write_part(part: Part) -> JsonObject:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image(url, detail):
            return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}
        case File(name, data, url, file_id):
            file: JsonObject = {"filename": name, "file_data": data, "file_id": file_id, "file_url": url}
            return {"type": "file", "file": {key: value for key, value in file.items() if value}}


def _write_tool(tool: Tool) -> JsonObject:
    name, description, schema, strict = tool
    function: JsonObject = {
        "name": name,
        "description": description,
        "parameters": schema or {"type": "object", "properties": {}},
    }
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def _write_choice(draft: Draft) -> Json:
    if draft.choice is None or not draft.tools:
        return None
    mode, name = draft.choice
    if mode == "one":
        return {"type": "function", "function": {"name": name}}
    return "required" if mode == "any" else mode


def _write_schema(draft: Draft) -> Json:
    if draft.schema is None:
        return None
    schema, name, strict = draft.schema
    if schema is None:
        return {"type": "json_object"}
    given: JsonObject = {"name": name, "schema": schema, **({} if strict is None else {"strict": strict})}
    return {"type": "json_schema", "json_schema": given}
