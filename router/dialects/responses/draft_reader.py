"""Responses → draft."""

from collections.abc import Callable
from typing import Any

import orjson

from router.contract.digits import as_written
from router.contract.errors import BadRequest, ItemForgotten, ResponseForgotten
from router.contract.request import Json, JsonObject
from router.dialects.chat.draft_reader import read_common, read_plain_form, read_schema, read_word_of_choice
from router.dialects.client_tools import CALL_ITEMS, RESPONSES_TOOLS, read_shell_output
from router.dialects.composer import CUSTOM_FIELD
from router.dialects.responses.request import LIMIT_FIELDS
from router.dialects.translate import expect
from router.dialects.translate.draft import (
    Draft,
    DraftCall,
    DraftReasoning,
    DraftResult,
    DraftText,
    File,
    Part,
    Schema,
    Text,
    Tool,
    custom_tool,
    given_arguments,
)
from router.dialects.translate.envelope import is_wrapped

_READ = frozenset(
    """
    model input instructions stream stream_options tools tool_choice parallel_tool_calls text temperature top_p reasoning
    include metadata user safety_identifier prompt_cache_key service_tier store client_metadata
    """.split()
).union(LIMIT_FIELDS)
_READ_OF_TEXT = frozenset({"format", "verbosity"})
_READ_OF_REASONING = frozenset({"effort", "summary"})
_READ_OF_TOOL = frozenset({"type", "name", "description", "parameters", "strict", "format"})
_READ_OF_CLIENT_TOOL = frozenset({"type", "environment"})
_READ_OF_NAMESPACE = frozenset({"type", "name", "tools"})
_READ_OF_ITEM = frozenset(
    """
    type id role content status call_id name namespace arguments input output action operation summary encrypted_content
    environment max_output_length caller created_by internal_chat_message_metadata_passthrough
    """.split()
)
"""Fields that are read, or mean nothing to a model."""
_READ_OF_PART = frozenset("type text refusal annotations logprobs image_url detail file_id filename file_data file_url".split())
_ENCRYPTED = "reasoning.encrypted_content"
_PLAIN_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def read_draft(body: JsonObject) -> Draft:
    _check_kept(body)
    draft = Draft()
    instructions = expect.text(body, "instructions")
    if instructions:
        draft.system.append(instructions)
    given = body.get("input")
    items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else expect.sequence(body, "input")
    _read_tools(draft, expect.sequence(body, "tools"), "tools")
    for item, where in expect.entries(items, "input"):
        if item.get("type") == "additional_tools":
            _read_tools(draft, expect.sequence(item, "tools", where), f"{where}.tools")
    for item, where in expect.entries(items, "input"):
        _read_item(draft, item, where)
    _read_choice(draft, body.get("tool_choice"))
    draft.parallel = expect.flag(body, "parallel_tool_calls")
    text = expect.mapping(body, "text")
    draft.schema = _read_schema(text)
    draft.verbosity = expect.text(text, "verbosity", "text") or None
    draft.drop_unread_of("text", text, _READ_OF_TEXT)
    draft.max_tokens = expect.first_whole(body, LIMIT_FIELDS)
    read_common(draft, body)
    reasoning = expect.mapping(body, "reasoning")
    draft.effort = expect.text(reasoning, "effort", "reasoning") or None
    draft.wants_summary = bool(expect.text(reasoning, "summary", "reasoning"))
    draft.drop_unread_of("reasoning", reasoning, _READ_OF_REASONING)
    include = expect.words(expect.sequence(body, "include"), "include")
    draft.wants_envelopes = _ENCRYPTED in include
    draft.drop(*(f"include: {name[:60]}" for name in include if name != _ENCRYPTED))
    draft.drop_unread(body, _READ)
    return draft


def _check_kept(body: JsonObject) -> None:
    """Refuse references to a host's stored state, without which the request means something else."""
    for name in ("previous_response_id", "conversation", "prompt"):
        if body.get(name):
            kind = ResponseForgotten if name == "previous_response_id" else BadRequest
            raise kind(f"{name}: only the host that stores it can use it. Send the whole conversation in input", param=name)


def _read_item(draft: Draft, item: JsonObject, where: str) -> None:
    kind = expect.text(item, "type", where) or "message"
    reader = _ITEMS.get(kind)
    if reader is not None:
        reader(draft, item, where)
        draft.drop_unread_of("items", item, _READ_OF_ITEM)
    elif kind == "item_reference":
        raise ItemForgotten(f"{where}: an item_reference must be an object in an input list", param=where)
    elif kind != "additional_tools":
        draft.drop(f"items of type {kind[:40]}")


def _read_message(draft: Draft, item: JsonObject, where: str) -> None:
    role = expect.text(item, "role", where)
    if role not in ("system", "developer", "user", "assistant"):
        raise BadRequest(f'{where}.role: unknown role "{role[:40]}"', param=f"{where}.role")
    lost = draft.lost_parts
    parts = _read_content(draft, expect.content(item, "content", where))
    if role != "assistant":
        draft.check_said(parts, lost, where)
    if role in ("system", "developer"):
        if draft.lines:
            draft.lines.append(DraftText("system", parts))
        else:
            draft.add_system(parts)
    elif parts or role == "user":
        draft.lines.append(DraftText(role, parts or (Text(""),)))


def _read_call(draft: Draft, item: JsonObject, where: str) -> None:
    call_id, name = expect.needed_text(item, "call_id", where), _tool_name(draft, item, where)
    draft.lines.append(DraftCall(call_id, name, given_arguments(expect.text(item, "arguments", where))))


def _read_custom_call(draft: Draft, item: JsonObject, where: str) -> None:
    arguments = orjson.dumps({CUSTOM_FIELD: expect.text(item, "input", where)}).decode()
    draft.lines.append(DraftCall(expect.needed_text(item, "call_id", where), _tool_name(draft, item, where), arguments))


def _read_client_call(draft: Draft, item: JsonObject, where: str) -> None:
    name, call = CALL_ITEMS[expect.text(item, "type", where)]
    arguments = call.arguments(expect.mapping(item, call.field, where))
    draft.lines.append(DraftCall(_client_call_id(item, where), draft.name_tool(name), arguments))


def _read_output(draft: Draft, item: JsonObject, where: str) -> None:
    output, kind = item.get("output"), expect.text(item, "type", where)
    is_error = kind not in _PLAIN_OUTPUTS and item.get("status") == "failed"
    if isinstance(output, str):
        parts: tuple[Part, ...] = (Text(output),)
    elif kind in _PLAIN_OUTPUTS or (isinstance(output, list) and all(isinstance(e, dict) and "type" in e for e in output)):
        parts = _read_content(draft, expect.content(item, "output", where))
    elif output is None or isinstance(output, (list, dict)):
        words = read_shell_output(output)[0] if isinstance(output, list) else ""
        parts = (Text(words or orjson.dumps(output, default=as_written).decode()),) if output else ()
    else:
        raise expect.unexpected(f"{where}.output", output, "a string or a list of parts")
    call_id = expect.needed_text(item, "call_id", where) if kind in _PLAIN_OUTPUTS else _client_call_id(item, where)
    draft.lines.append(DraftResult(call_id, parts, is_error))


def _client_call_id(item: JsonObject, where: str) -> str:
    """A client tool's call id; the oldest kind of output has it as its own id."""
    return expect.text(item, "call_id", where) or expect.text(item, "id", where) or expect.needed_text(item, "call_id", where)


def _read_reasoning(draft: Draft, item: JsonObject, where: str) -> None:
    hidden = expect.text(item, "encrypted_content", where)
    if is_wrapped(hidden):
        draft.lines.append(DraftReasoning(hidden))
    else:
        draft.drop("reasoning of earlier answers")


_ITEMS: dict[str, Callable[[Draft, JsonObject, str], None]] = {
    "message": _read_message,
    "function_call": _read_call,
    "custom_tool_call": _read_custom_call,
    **dict.fromkeys(CALL_ITEMS, _read_client_call),
    "function_call_output": _read_output,
    "custom_tool_call_output": _read_output,
    **{f"{kind}_output": _read_output for kind in CALL_ITEMS},
    "reasoning": _read_reasoning,
}


def _read_content(draft: Draft, content: str | list[tuple[JsonObject, str]]) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    parts: list[Part] = []
    for part, path in content:
        match expect.needed_text(part, "type", path):
            case "input_text" | "output_text" | "text" | "refusal" | "summary_text":
                text = expect.text(part, "text", path) or expect.text(part, "refusal", path)
                if text:
                    parts.append(Text(text))
                if part.get("annotations"):
                    draft.drop("annotations of earlier answers")
            case "input_image":
                image, detail = expect.text(part, "image_url", path), expect.text(part, "detail", path)
                if not image and not expect.text(part, "file_id", path):
                    raise expect.refuse(f"{path}.image_url", "missing. Send an address or a data: URL")
                draft.add_image(parts, path, image, detail or None)
            case "input_file":
                found: dict[str, Any] = {name: expect.text(part, key, path) or None for name, key in _FILE_FIELDS}
                draft.add_file(parts, path, File(**found))
                if part.get("detail"):
                    draft.drop("detail of files")
            case kind:
                draft.drop_part(kind, path)
                continue
        draft.drop_unread_of("parts", part, _READ_OF_PART)
    return tuple(parts)


_FILE_FIELDS = (("name", "filename"), ("data", "file_data"), ("url", "file_url"), ("file_id", "file_id"))


def _read_tools(draft: Draft, tools: list[Json], where: str, namespace: str | None = None) -> None:
    for tool, path in expect.entries(tools, where):
        _read_tool(draft, tool, path, namespace)


def _read_tool(draft: Draft, tool: JsonObject, where: str, namespace: str | None) -> None:
    kind = expect.needed_text(tool, "type", where)
    if kind in RESPONSES_TOOLS and _read_client_tool(draft, tool, where):
        return
    if kind not in ("function", "custom", "namespace"):
        draft.drop(f"the tool {kind[:40]}")
        return
    name, description = expect.needed_text(tool, "name", where), expect.text(tool, "description", where)
    match kind:
        case "function":
            schema, strict = expect.mapping(tool, "parameters", where), expect.flag(tool, "strict", where)
            draft.add_tool(Tool(name, description, schema, strict), namespace)
            draft.drop_unread_of("tools", tool, _READ_OF_TOOL)
        case "custom":
            form = expect.mapping(tool, "format", where)
            draft.add_tool(custom_tool(name, description, form), namespace, is_custom=True)
            draft.drop_unread_of("tools", tool, _READ_OF_TOOL)
        case _:
            draft.drop_unread_of("namespaces", tool, _READ_OF_NAMESPACE)
            _read_tools(draft, expect.sequence(tool, "tools", where), f"{where}.tools", name)


def _read_client_tool(draft: Draft, tool: JsonObject, where: str) -> bool:
    """Offer a tool that the client runs, with its skills. False for one in a host's container."""
    name, description, schema, item = RESPONSES_TOOLS[expect.text(tool, "type", where)]
    environment, path = expect.mapping(tool, "environment", where), f"{where}.environment"
    if expect.text(environment, "type", path) not in ("", "local"):
        return False
    skills = [
        "- " + ": ".join(filter(None, (expect.text(skill, field, at) for field in ("name", "description", "path"))))
        for skill, at in expect.entries(expect.sequence(environment, "skills", path), f"{path}.skills")
    ]
    if skills:
        listed = "\n".join(skills)
        description = f"{description}\n\nSkills, each a folder whose SKILL.md says how to use it:\n{listed}"
    draft.add_tool(Tool(name, description, schema), item=item)
    draft.drop_unread_of("tools", tool, _READ_OF_CLIENT_TOOL)
    return True


def _tool_name(draft: Draft, given: JsonObject, where: str) -> str:
    return draft.name_tool(expect.needed_text(given, "name", where), expect.text(given, "namespace", where) or None)


def _read_choice(draft: Draft, given: Json) -> None:
    if (choice := read_word_of_choice(draft, given)) is None:
        return
    match expect.text(choice, "type", "tool_choice"):
        case "function" | "custom":
            draft.choose("one", _tool_name(draft, choice, "tool_choice"))
        case "allowed_tools":
            tools = expect.entries(expect.sequence(choice, "tools", "tool_choice"), "tool_choice.tools")
            draft.keep_tools([_allowed_name(draft, tool, where) for tool, where in tools])
            draft.choose("any" if choice.get("mode") == "required" else "auto")
        case kind:
            draft.choose("one", kind)


def _allowed_name(draft: Draft, tool: JsonObject, where: str) -> str:
    """An allowed tool's name or type; empty for a host's own tool."""
    kind = expect.text(tool, "type", where)
    if kind in ("", "function", "custom"):
        return _tool_name(draft, tool, where)
    return draft.name_tool(kind) if kind in RESPONSES_TOOLS else ""


def _read_schema(text: JsonObject) -> Schema | None:
    form = expect.mapping(text, "format", "text")
    if not form:
        return None
    kind = expect.needed_text(form, "type", "text.format")
    return read_schema(form, "text.format") if kind == "json_schema" else read_plain_form(kind, "text.format")
