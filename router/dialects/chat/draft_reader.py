"""Chat Completions → draft."""

import orjson

from router.contract.errors import BadRequest, Misfit
from router.contract.request import Json, JsonObject
from router.dialects.composer import CUSTOM_FIELD, Shape
from router.dialects.fields import as_list, as_object, as_text, as_whole
from router.dialects.translate.draft import (
    Draft,
    DraftCall,
    DraftResult,
    DraftText,
    File,
    Part,
    Schema,
    Text,
    Tool,
    custom_tool,
)

_READ = frozenset(
    """
    model messages stream stream_options tools tool_choice parallel_tool_calls response_format max_tokens n
    max_completion_tokens stop temperature top_p reasoning_effort reasoning verbosity metadata user safety_identifier
    prompt_cache_key service_tier store
    """.split()
)


def read_draft(body: JsonObject) -> Draft:
    """Read a request that may go to another dialect."""
    draft = Draft()
    if body.get("n") not in (None, 1):
        raise Misfit("n: this target needs translation, which supports only n=1", param="n")
    for index, value in enumerate(as_list(body.get("messages"))):
        _read_message(draft, as_object(value), f"messages[{index}]")
    for value in as_list(body.get("tools")):
        _read_tool(draft, as_object(value))
    _read_choice(draft, body.get("tool_choice"))
    parallel = body.get("parallel_tool_calls")
    draft.parallel = parallel if isinstance(parallel, bool) else None
    draft.schema = _read_schema(as_object(body.get("response_format")))
    for name in ("max_completion_tokens", "max_tokens"):
        if draft.max_tokens is None:
            draft.max_tokens = as_whole(body.get(name))
    stop = body.get("stop")
    draft.stop = [stop] if isinstance(stop, str) else [word for word in as_list(stop) if isinstance(word, str)]
    read_common(draft, body)
    draft.effort = as_text(body.get("reasoning_effort")) or as_text(as_object(body.get("reasoning")).get("effort")) or None
    draft.verbosity = as_text(body.get("verbosity")) or None
    draft.drop_unread(body, _READ)
    return draft


def read_common(draft: Draft, body: JsonObject) -> None:
    """What chat and responses spell alike."""
    draft.is_streaming = body.get("stream") is True
    for name in ("temperature", "top_p"):
        value = body.get(name)
        if isinstance(value, (int, float)):
            setattr(draft, name, value)
    draft.metadata = as_object(body.get("metadata")) or None
    draft.user = as_text(body.get("safety_identifier")) or as_text(body.get("user")) or None
    draft.cache_key = as_text(body.get("prompt_cache_key")) or None
    draft.service_tier = as_text(body.get("service_tier")) or None


def _read_message(draft: Draft, message: JsonObject, where: str) -> None:
    role, content = as_text(message.get("role")), message.get("content")
    match role:
        case "system" | "developer" | "user":
            parts = _read_parts(draft, content)
            if role != "user" and not draft.lines:
                draft.add_system(parts)
            else:
                draft.lines.append(DraftText("user" if role == "user" else "system", parts))
        case "assistant":
            parts = _read_parts(draft, content)
            if as_text(message.get("refusal")):
                parts = (*parts, Text(as_text(message.get("refusal"))))
            if parts:
                draft.lines.append(DraftText("assistant", parts))
            if message.get("reasoning_content") or message.get("reasoning"):
                draft.drop("reasoning of earlier answers")
            for call in as_list(message.get("tool_calls")):
                draft.lines.append(_read_call(as_object(call)))
        case "tool":
            draft.lines.append(DraftResult(as_text(message.get("tool_call_id")), _read_parts(draft, content)))
        case _:
            raise BadRequest(f'{where}.role: unknown role "{role[:40]}"', param=f"{where}.role")


def _read_call(call: JsonObject) -> DraftCall:
    if call.get("type") == "custom":
        custom = as_object(call.get("custom"))
        arguments = orjson.dumps({CUSTOM_FIELD: as_text(custom.get("input"))}).decode()
        return DraftCall(as_text(call.get("id")), as_text(custom.get("name")), arguments)
    function = as_object(call.get("function"))
    return DraftCall(as_text(call.get("id")), as_text(function.get("name")), as_text(function.get("arguments")) or "{}")


def _read_parts(draft: Draft, content: Json) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    parts: list[Part] = []
    for value in as_list(content):
        part = as_object(value)
        match part.get("type"):
            case "text" | "refusal":
                text = as_text(part.get("text")) or as_text(part.get("refusal"))
                if text:
                    parts.append(Text(text))
            case "image_url":
                image = part.get("image_url")
                url = as_text(as_object(image).get("url")) or as_text(image)
                draft.add_image(parts, url, as_text(as_object(image).get("detail")) or None)
            case "file":
                file = as_object(part.get("file"))
                found = {name: as_text(file.get(key)) or None for name, key in _FILE_FIELDS}
                draft.add_file(parts, File(**found))
            case kind:
                draft.drop(f"parts of type {as_text(kind)[:40]}")
    return tuple(parts)


_FILE_FIELDS = (("name", "filename"), ("data", "file_data"), ("file_id", "file_id"))


def _read_tool(draft: Draft, tool: JsonObject) -> None:
    match tool.get("type", "function"):
        case "function":
            function = as_object(tool.get("function"))
            strict = function.get("strict")
            draft.add_tool(
                Tool(
                    as_text(function.get("name")),
                    as_text(function.get("description")),
                    as_object(function.get("parameters")),
                    strict if isinstance(strict, bool) else None,
                )
            )
        case "custom":
            custom = as_object(tool.get("custom"))
            name = as_text(custom.get("name"))
            form = as_object(as_object(custom.get("format")).get("grammar"))
            draft.add_tool(custom_tool(name, as_text(custom.get("description")), form), Shape(name, is_custom=True))
        case kind:
            draft.drop(f"the tool {as_text(kind)[:40]}")


def _read_choice(draft: Draft, choice: Json) -> None:
    if choice is None:
        return
    if isinstance(choice, str):
        draft.choose("any" if choice == "required" else choice)
        return
    given = as_object(choice)
    match given.get("type"):
        case "function" | "custom" as kind:
            draft.choose("one", as_text(as_object(given.get(kind)).get("name")))
        case "allowed_tools":
            allowed = as_object(given.get("allowed_tools"))
            draft.keep_tools(
                as_text(as_object(tool.get("function") or tool.get("custom")).get("name"))
                for tool in map(as_object, as_list(allowed.get("tools")))
            )
            draft.choose("any" if allowed.get("mode") == "required" else "auto")
        case kind:
            draft.choose(as_text(kind) if kind in ("auto", "none") else f"type {as_text(kind)}")


def _read_schema(form: JsonObject) -> Schema | None:
    if form.get("type") == "json_object":
        return Schema(None)
    if form.get("type") != "json_schema":
        return None
    given = as_object(form.get("json_schema"))
    strict = given.get("strict")
    return Schema(
        as_object(given.get("schema")), as_text(given.get("name")) or "answer", strict if isinstance(strict, bool) else None
    )
