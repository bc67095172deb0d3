"""Responses → draft."""

from collections.abc import Callable

import orjson

from router.contract.errors import BadRequest, ResponseForgotten
from router.contract.request import Json, JsonObject
from router.dialects.chat.draft_reader import read_common
from router.dialects.composer import CUSTOM_FIELD, Shape
from router.dialects.fields import as_list, as_object, as_text, as_whole
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
    flat_name,
)
from router.dialects.translate.envelope import is_wrapped

_READ = frozenset(
    """
    model input instructions stream stream_options tools tool_choice parallel_tool_calls text max_output_tokens
    temperature top_p reasoning include metadata user safety_identifier prompt_cache_key service_tier store
    client_metadata
    """.split()
)
_ENCRYPTED = "reasoning.encrypted_content"


def read_draft(body: JsonObject) -> Draft:
    """Read a request that may go to another dialect."""
    _check_kept(body)
    draft = Draft()
    instructions = as_text(body.get("instructions"))
    if instructions:
        draft.system.append(instructions)
    tools = list(as_list(body.get("tools")))
    given = body.get("input")
    items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else as_list(given)
    for index, value in enumerate(items):
        item = as_object(value)
        if item.get("type") == "additional_tools":
            tools.extend(as_list(item.get("tools")))
        else:
            _read_item(draft, item, f"input[{index}]")
    for value in tools:
        _read_tool(draft, as_object(value), None)
    _read_choice(draft, body.get("tool_choice"))
    parallel = body.get("parallel_tool_calls")
    draft.parallel = parallel if isinstance(parallel, bool) else None
    text = as_object(body.get("text"))
    draft.schema = _read_schema(as_object(text.get("format")))
    draft.verbosity = as_text(text.get("verbosity")) or None
    draft.max_tokens = as_whole(body.get("max_output_tokens"))
    read_common(draft, body)
    reasoning = as_object(body.get("reasoning"))
    draft.effort = as_text(reasoning.get("effort")) or None
    draft.wants_summary = bool(reasoning.get("summary"))
    include = as_list(body.get("include"))
    draft.wants_envelopes = _ENCRYPTED in include
    draft.drop(*(f"include: {as_text(name)[:60]}" for name in include if name != _ENCRYPTED))
    draft.drop_unread(body, _READ)
    return draft


def _check_kept(body: JsonObject) -> None:
    """What one host keeps, another cannot answer to: without it the request would mean something else."""
    for name in ("previous_response_id", "conversation", "prompt"):
        if body.get(name):
            kind = ResponseForgotten if name == "previous_response_id" else BadRequest
            raise kind(f"{name}: only the host that stores it can use it. Send the whole conversation in input", param=name)


def _read_item(draft: Draft, item: JsonObject, where: str) -> None:
    kind = as_text(item.get("type")) or "message"
    reader = _ITEMS.get(kind)
    if reader is None:
        draft.drop(f"items of type {kind[:40]}")
    else:
        reader(draft, item, where)


def _read_message(draft: Draft, item: JsonObject, where: str) -> None:
    role = as_text(item.get("role"))
    parts = _read_parts(draft, item.get("content"))
    if role in ("system", "developer"):
        if draft.lines:
            draft.lines.append(DraftText("system", parts))
        else:
            draft.add_system(parts)
    elif role in ("user", "assistant"):
        if parts:
            draft.lines.append(DraftText(role, parts))
    else:
        raise BadRequest(f'{where}.role: unknown role "{role[:40]}"', param=f"{where}.role")


def _read_call(draft: Draft, item: JsonObject, where: str) -> None:
    draft.lines.append(DraftCall(as_text(item.get("call_id")), _tool_name(item), as_text(item.get("arguments")) or "{}"))


def _read_custom_call(draft: Draft, item: JsonObject, where: str) -> None:
    arguments = orjson.dumps({CUSTOM_FIELD: as_text(item.get("input"))}).decode()
    draft.lines.append(DraftCall(as_text(item.get("call_id")), _tool_name(item), arguments))


def _read_shell_call(draft: Draft, item: JsonObject, where: str) -> None:
    """A call of a shell that the host offers: told as a call, so that its output has one to belong to."""
    arguments = orjson.dumps(item.get("action") or item.get("operation") or {}).decode()
    draft.lines.append(DraftCall(as_text(item.get("call_id")), as_text(item.get("type")).removesuffix("_call"), arguments))


def _read_output(draft: Draft, item: JsonObject, where: str) -> None:
    output = item.get("output")
    if isinstance(output, str):
        parts: tuple[Part, ...] = (Text(output),)
    elif isinstance(output, list) and all("type" in as_object(entry) for entry in output):
        parts = _read_parts(draft, output)
    else:
        parts = (Text(orjson.dumps(output).decode()),) if output else ()  # a shell's, in fields of its own
    draft.lines.append(DraftResult(as_text(item.get("call_id")), parts))


def _read_reasoning(draft: Draft, item: JsonObject, where: str) -> None:
    hidden = as_text(item.get("encrypted_content"))
    if is_wrapped(hidden):
        draft.lines.append(DraftReasoning(hidden))
    else:
        draft.drop("reasoning of earlier answers")


_ITEMS: dict[str, Callable[[Draft, JsonObject, str], None]] = {
    "message": _read_message,
    "function_call": _read_call,
    "custom_tool_call": _read_custom_call,
    "local_shell_call": _read_shell_call,
    "shell_call": _read_shell_call,
    "apply_patch_call": _read_shell_call,
    "function_call_output": _read_output,
    "custom_tool_call_output": _read_output,
    "local_shell_call_output": _read_output,
    "shell_call_output": _read_output,
    "apply_patch_call_output": _read_output,
    "reasoning": _read_reasoning,
}


def _read_parts(draft: Draft, content: Json) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    parts: list[Part] = []
    for value in as_list(content):
        part = as_object(value)
        match part.get("type"):
            case "input_text" | "output_text" | "text" | "refusal" | "summary_text":
                text = as_text(part.get("text")) or as_text(part.get("refusal"))
                if text:
                    parts.append(Text(text))
            case "input_image":
                draft.add_image(parts, as_text(part.get("image_url")), as_text(part.get("detail")) or None)
            case "input_file":
                found = {name: as_text(part.get(key)) or None for name, key in _FILE_FIELDS}
                draft.add_file(parts, File(**found))
            case kind:
                draft.drop(f"parts of type {as_text(kind)[:40]}")
    return tuple(parts)


_FILE_FIELDS = (("name", "filename"), ("data", "file_data"), ("url", "file_url"), ("file_id", "file_id"))


def _read_tool(draft: Draft, tool: JsonObject, namespace: str | None) -> None:
    name, description = as_text(tool.get("name")), as_text(tool.get("description"))
    match tool.get("type"):
        case "function":
            seen = flat_name(namespace, name) if namespace else name
            strict = tool.get("strict")
            found = Tool(seen, description, as_object(tool.get("parameters")), strict if isinstance(strict, bool) else None)
            draft.add_tool(found, Shape(name, namespace) if namespace else None)
        case "custom":
            seen = flat_name(namespace, name) if namespace else name
            draft.add_tool(custom_tool(seen, description, tool.get("format")), Shape(name, namespace, is_custom=True))
        case "namespace":
            for inner in as_list(tool.get("tools")):
                _read_tool(draft, as_object(inner), name)
        case kind:
            draft.drop(f"the tool {as_text(kind)[:40]}")


def _tool_name(given: JsonObject) -> str:
    name, namespace = as_text(given.get("name")), as_text(given.get("namespace"))
    return flat_name(namespace, name) if namespace else name


def _read_choice(draft: Draft, choice: Json) -> None:
    if choice is None:
        return
    if isinstance(choice, str):
        draft.choose("any" if choice == "required" else choice)
        return
    given = as_object(choice)
    match given.get("type"):
        case "function" | "custom":
            draft.choose("one", _tool_name(given))
        case "allowed_tools":
            draft.keep_tools(_tool_name(as_object(tool)) for tool in as_list(given.get("tools")))
            draft.choose("any" if given.get("mode") == "required" else "auto")
        case kind:
            draft.choose("one", as_text(kind))


def _read_schema(form: JsonObject) -> Schema | None:
    if form.get("type") == "json_object":
        return Schema(None)
    if form.get("type") != "json_schema":
        return None
    strict = form.get("strict")
    return Schema(
        as_object(form.get("schema")), as_text(form.get("name")) or "answer", strict if isinstance(strict, bool) else None
    )
