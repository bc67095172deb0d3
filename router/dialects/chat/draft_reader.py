"""Chat Completions → draft."""

from typing import Any

import orjson

from router.contract.errors import BadRequest, Misfit
from router.contract.request import Json, JsonObject
from router.dialects.chat.old_calls import asks_for_old_calls
from router.dialects.chat.request import LIMIT_FIELDS, THOUGHTS
from router.dialects.composer import CUSTOM_FIELD
from router.dialects.translate import expect
from router.dialects.translate.draft import (
    Draft,
    DraftCall,
    DraftResult,
    DraftText,
    File,
    Mark,
    Part,
    Schema,
    Text,
    Tool,
    custom_tool,
    given_arguments,
    mark_last,
)

_READ = frozenset(
    """
    model messages stream stream_options tools tool_choice parallel_tool_calls response_format n stop temperature top_p
    reasoning_effort reasoning verbosity metadata user safety_identifier prompt_cache_key service_tier store cache_control
    functions function_call
    """.split()
).union(LIMIT_FIELDS)
_READ_OF_REASONING = frozenset({"effort"})
_READ_OF_MESSAGE = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "cache_control", *THOUGHTS})
_READ_OF_RESULT = frozenset({"role", "content", "tool_call_id", "name", "cache_control"})
_READ_OF_PART = frozenset({"type", "text", "refusal", "image_url", "file", "cache_control"})
_READ_OF_CALL = frozenset({"id", "type", "index", "function", "custom", "cache_control"})
_READ_OF_FUNCTION = frozenset({"name", "description", "parameters", "strict", "cache_control"})


def read_draft(body: JsonObject) -> Draft:
    draft = Draft()
    draft.end_mark = draft.read_mark(body)
    if body.get("n") not in (None, 1):
        raise Misfit("n: this target needs translation, which supports only n=1", param="n")
    for tool, where in expect.entries(expect.sequence(body, "tools"), "tools"):
        _read_tool(draft, tool, where)
    for function, where in expect.entries(expect.sequence(body, "functions"), "functions"):
        _offer_function(draft, function, where)
    for message, where in expect.entries(expect.sequence(body, "messages"), "messages"):
        _read_message(draft, message, where)
    _read_choice(draft, body.get("tool_choice"))
    draft.parallel = expect.flag(body, "parallel_tool_calls")
    old_choice = body.get("function_call")
    if old_choice is not None and not isinstance(old_choice, (str, dict)):
        raise expect.unexpected("function_call", old_choice, "a string or an object")
    if asks_for_old_calls(body):
        _read_old_choice(draft, old_choice)
        draft.parallel = False  # an answer holds one call
    draft.schema = _read_schema(body)
    draft.max_tokens = expect.first_whole(body, LIMIT_FIELDS)
    stop = body.get("stop")
    draft.stop = [stop] if isinstance(stop, str) else expect.words(expect.sequence(body, "stop"), "stop")
    read_common(draft, body)
    reasoning = expect.mapping(body, "reasoning")
    draft.effort = expect.text(body, "reasoning_effort") or expect.text(reasoning, "effort", "reasoning") or None
    draft.drop_unread_of("reasoning", reasoning, _READ_OF_REASONING)
    if expect.flag(body, "store"):
        draft.drop("store")
    draft.verbosity = expect.text(body, "verbosity") or None
    draft.drop_unread(body, _READ)
    return draft


def read_common(draft: Draft, body: JsonObject) -> None:
    draft.read_sampling(body)
    expect.mapping(body, "stream_options")
    draft.metadata = expect.mapping(body, "metadata") or None
    for name, value in (draft.metadata or {}).items():
        if not isinstance(value, str):
            raise expect.unexpected(f"metadata.{name[:60]}", value, "a string")
    draft.user = expect.text(body, "safety_identifier") or expect.text(body, "user") or None
    draft.cache_key = expect.text(body, "prompt_cache_key") or None
    draft.service_tier = expect.text(body, "service_tier") or None


def _read_message(draft: Draft, message: JsonObject, where: str) -> None:
    role = expect.text(message, "role", where)
    match role:
        case "system" | "developer" | "user":
            lost = draft.lost_parts
            parts = _read_parts(draft, message, where)
            draft.check_said(parts, lost, where)
            if role != "user" and not draft.lines:
                draft.add_system(parts)
            else:
                draft.lines.append(DraftText("user" if role == "user" else "system", parts or (Text(""),)))
            draft.drop_unread_of("messages", message, _READ_OF_MESSAGE)
        case "assistant":
            _read_answer(draft, message, where)
            draft.drop_unread_of("messages", message, _READ_OF_MESSAGE)
        case "tool":
            call_id = expect.needed_text(message, "tool_call_id", where)
            draft.lines.append(DraftResult(call_id, _read_parts(draft, message, where, may_be_absent=True)))
            draft.drop_unread_of("messages", message, _READ_OF_RESULT)
        case "function":
            call_id = _call_awaiting(draft, expect.needed_text(message, "name", where), where)
            draft.lines.append(DraftResult(call_id, _read_parts(draft, message, where, may_be_absent=True)))
        case _:
            raise BadRequest(f'{where}.role: unknown role "{role[:40]}"', param=f"{where}.role")


def _read_answer(draft: Draft, message: JsonObject, where: str) -> None:
    parts = _read_parts(draft, message, where, may_be_absent=True)
    refusal = expect.text(message, "refusal", where)
    if refusal:
        parts = (*parts, Text(refusal))
    if parts:
        draft.lines.append(DraftText("assistant", parts))
    if any(message.get(name) for name in THOUGHTS):
        draft.drop("reasoning of earlier answers")
    calls = expect.sequence(message, "tool_calls", where)
    for call, path in expect.entries(calls, f"{where}.tool_calls"):
        draft.lines.append(_read_call(draft, call, path))
        draft.drop_unread_of("calls", call, _READ_OF_CALL)
    old = expect.mapping(message, "function_call", where)
    if old:
        # A legacy call without an id: its result names the tool.
        draft.lines.append(_read_function(draft, f"call_{len(draft.lines)}", old, f"{where}.function_call"))


def _call_awaiting(draft: Draft, name: str, where: str) -> str:
    """The id of the tool's last call: legacy results name the tool alone."""
    seen = draft.name_tool(name)
    found = next((line for line in reversed(draft.lines) if isinstance(line, DraftCall) and line.name == seen), None)
    if found is None:
        raise expect.refuse(f"{where}.name", f'no function_call of "{name[:60]}" comes before this result')
    return found.call_id


def _read_call(draft: Draft, call: JsonObject, where: str) -> DraftCall:
    call_id = expect.needed_text(call, "id", where)
    kind = expect.one_of(expect.text(call, "type", where) or "function", ("function", "custom"), f"{where}.type")
    if kind == "custom":
        custom, path = expect.needed_mapping(call, "custom", where), f"{where}.custom"
        arguments = orjson.dumps({CUSTOM_FIELD: expect.text(custom, "input", path)}).decode()
        return DraftCall(call_id, draft.name_tool(expect.needed_text(custom, "name", path)), arguments)
    read = _read_function(draft, call_id, expect.needed_mapping(call, "function", where), f"{where}.function")
    return read._replace(mark=draft.read_mark(call))


def _read_function(draft: Draft, call_id: str, function: JsonObject, where: str) -> DraftCall:
    name = draft.name_tool(expect.needed_text(function, "name", where))
    return DraftCall(call_id, name, given_arguments(expect.text(function, "arguments", where)))


def _read_parts(draft: Draft, message: JsonObject, where: str, *, may_be_absent: bool = False) -> tuple[Part, ...]:
    content = expect.content(message, "content", where, may_be_absent=may_be_absent)
    mark = draft.read_mark(message)
    if isinstance(content, str):
        return (Text(content, mark),) if content else ()
    parts: list[Part] = []
    for part, path in content:
        before = len(parts)
        match expect.needed_text(part, "type", path):
            case "text" | "refusal":
                text = expect.text(part, "text", path) or expect.text(part, "refusal", path)
                if text:
                    parts.append(Text(text))
            case "image_url":
                draft.add_image(parts, path, *_read_image(part, path))
            case "file":
                file = expect.needed_mapping(part, "file", path)
                found: dict[str, Any] = {name: expect.text(file, key, f"{path}.file") or None for name, key in _FILE_FIELDS}
                draft.add_file(parts, f"{path}.file", File(**found))
            case kind:
                draft.drop_part(kind, path)
        if len(parts) > before:
            draft.drop_unread_of("parts", part, _READ_OF_PART)
        mark_last(parts, before, draft.read_mark(part))
    mark_last(parts, 0, mark)
    return tuple(parts)


_FILE_FIELDS = (("name", "filename"), ("data", "file_data"), ("file_id", "file_id"))


def _read_image(part: JsonObject, where: str) -> tuple[str, str | None]:
    if isinstance(part.get("image_url"), str):
        return expect.needed_text(part, "image_url", where), None  # some clients send a string
    image, path = expect.needed_mapping(part, "image_url", where), f"{where}.image_url"
    return expect.needed_text(image, "url", path), expect.text(image, "detail", path) or None


def _read_tool(draft: Draft, tool: JsonObject, where: str) -> None:
    match expect.text(tool, "type", where) or "function":
        case "function":
            function = expect.needed_mapping(tool, "function", where)
            _offer_function(draft, function, f"{where}.function", draft.read_mark(tool))
        case "custom":
            custom, path = expect.needed_mapping(tool, "custom", where), f"{where}.custom"
            form = expect.mapping(custom, "format", path)
            grammar = expect.mapping(form, "grammar", f"{path}.format")
            name = expect.needed_text(custom, "name", path)
            draft.add_tool(custom_tool(name, expect.text(custom, "description", path), grammar), is_custom=True)
        case kind:
            draft.drop(f"the tool {kind[:40]}")


def _offer_function(draft: Draft, function: JsonObject, where: str, mark: Mark = None) -> None:
    name = expect.needed_text(function, "name", where)
    description, schema = expect.text(function, "description", where), expect.mapping(function, "parameters", where)
    mark = mark or draft.read_mark(function)
    draft.add_tool(Tool(name, description, schema, expect.flag(function, "strict", where), mark))
    draft.drop_unread_of("tools", function, _READ_OF_FUNCTION)


def _read_old_choice(draft: Draft, choice: str | JsonObject | None) -> None:
    if isinstance(choice, dict):
        draft.choose("one", draft.name_tool(expect.needed_text(choice, "name", "function_call")))
    elif choice is not None:
        draft.choose(expect.one_of(choice, ("auto", "none"), "function_call"))


def read_word_of_choice(draft: Draft, choice: Json) -> JsonObject | None:
    """Read a one-word choice; return an object unread."""
    if isinstance(choice, dict):
        return choice
    if isinstance(choice, str):
        draft.choose("any" if choice == "required" else choice)
    elif choice is not None:
        raise expect.unexpected("tool_choice", choice, "a string or an object")
    return None


def _read_choice(draft: Draft, given: Json) -> None:
    if (choice := read_word_of_choice(draft, given)) is None:
        return
    match expect.text(choice, "type", "tool_choice"):
        case "function" | "custom" as kind:
            chosen = expect.needed_mapping(choice, kind, "tool_choice")
            draft.choose("one", draft.name_tool(expect.needed_text(chosen, "name", f"tool_choice.{kind}")))
        case "allowed_tools":
            allowed, path = expect.needed_mapping(choice, "allowed_tools", "tool_choice"), "tool_choice.allowed_tools"
            tools = expect.entries(expect.sequence(allowed, "tools", path), f"{path}.tools")
            draft.keep_tools([_allowed_name(draft, tool, where) for tool, where in tools])
            draft.choose("any" if allowed.get("mode") == "required" else "auto")
        case kind:
            draft.choose(kind if kind in ("auto", "none") else f"type {kind}")


def _allowed_name(draft: Draft, tool: JsonObject, where: str) -> str:
    kind = "custom" if tool.get("custom") is not None else "function"
    return draft.name_tool(expect.needed_text(expect.needed_mapping(tool, kind, where), "name", f"{where}.{kind}"))


def _read_schema(body: JsonObject) -> Schema | None:
    form = expect.mapping(body, "response_format")
    if not form:
        return None
    kind = expect.needed_text(form, "type", "response_format")
    if kind != "json_schema":
        return read_plain_form(kind, "response_format")
    return read_schema(expect.needed_mapping(form, "json_schema", "response_format"), "response_format.json_schema")


def read_plain_form(kind: str, where: str) -> Schema | None:
    match kind:
        case "text":
            return None
        case "json_object":
            return Schema(None)
    raise Misfit(f'{where}.type: "{kind[:40]}" cannot be passed to a target that speaks another dialect', param=f"{where}.type")


def read_schema(given: JsonObject, where: str) -> Schema:
    return Schema(
        expect.mapping(given, "schema", where),
        expect.text(given, "name", where) or None,
        expect.flag(given, "strict", where),
        expect.text(given, "description", where) or None,
    )
