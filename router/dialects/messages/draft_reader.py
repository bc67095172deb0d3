"""Anthropic Messages → draft."""

import orjson

from router.contract.errors import BadRequest
from router.contract.request import Json, JsonObject
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
)
from router.dialects.translate.envelope import is_wrapped

_READ = frozenset(
    """
    model messages system tools tool_choice max_tokens stop_sequences stream temperature top_p thinking output_config
    metadata cache_control
    """.split()
)
_BUDGET_EFFORTS = ((4_000, "low"), (16_000, "medium"))
"""What a budget of thinking tokens amounts to; above the last, `high`."""


def read_draft(body: JsonObject) -> Draft:
    """Read a request that may go to another dialect."""
    draft = Draft(wants_envelopes=True)
    draft.add_system(_read_parts(draft, body.get("system")))
    for index, value in enumerate(as_list(body.get("messages"))):
        message = as_object(value)
        _read_message(draft, as_text(message.get("role")), message.get("content"), f"messages[{index}]")
    for value in as_list(body.get("tools")):
        _read_tool(draft, as_object(value))
    choice = as_object(body.get("tool_choice"))
    if choice:
        mode = as_text(choice.get("type"))
        draft.choose("one" if mode == "tool" else mode, as_text(choice.get("name")) or None)
        if choice.get("disable_parallel_tool_use") is True:
            draft.parallel = False
    draft.max_tokens = as_whole(body.get("max_tokens"))
    draft.stop = [word for word in as_list(body.get("stop_sequences")) if isinstance(word, str)]
    draft.is_streaming = body.get("stream") is True
    for name in ("temperature", "top_p"):
        value = body.get(name)
        if isinstance(value, (int, float)):
            setattr(draft, name, value)
    _read_thinking(draft, body)
    draft.user = as_text(as_object(body.get("metadata")).get("user_id")) or None
    draft.drop_unread(body, _READ)
    return draft


def _read_thinking(draft: Draft, body: JsonObject) -> None:
    output, thinking = as_object(body.get("output_config")), as_object(body.get("thinking"))
    form = as_object(output.get("format"))
    if form.get("type") == "json_schema":
        draft.schema = Schema(as_object(form.get("schema")), is_strict=True)
    draft.effort = as_text(output.get("effort")) or None
    kind = thinking.get("type")
    draft.wants_thoughts = kind in ("adaptive", "enabled")
    draft.wants_summary = draft.wants_thoughts and thinking.get("display") != "omitted"
    if kind == "disabled":
        draft.drop("thinking: disabled")
    budget = thinking.get("budget_tokens")
    if draft.effort is None and kind == "enabled" and isinstance(budget, int):
        draft.effort = next((effort for most, effort in _BUDGET_EFFORTS if budget < most), "high")


def _read_message(draft: Draft, role: str, content: Json, where: str) -> None:
    if role not in ("user", "assistant", "system"):
        raise BadRequest(f'{where}.role: unknown role "{role[:40]}"', param=f"{where}.role")
    if isinstance(content, str):
        draft.lines.append(DraftText(role, (Text(content),)))
        return
    said: list[Part] = []

    def say() -> None:
        if said:
            draft.lines.append(DraftText(role, tuple(said)))
            said.clear()

    for value in as_list(content):
        block = as_object(value)
        match block.get("type"):
            case "tool_use":
                say()
                arguments = orjson.dumps(block.get("input") or {}).decode()
                draft.lines.append(DraftCall(as_text(block.get("id")), as_text(block.get("name")), arguments))
            case "tool_result":
                say()
                parts = _read_parts(draft, block.get("content"))
                draft.lines.append(DraftResult(as_text(block.get("tool_use_id")), parts, block.get("is_error") is True))
            case "thinking" | "redacted_thinking":
                say()
                signature = as_text(block.get("signature")) or as_text(block.get("data"))
                if is_wrapped(signature):
                    draft.lines.append(DraftReasoning(signature))
                else:
                    draft.drop("reasoning of earlier answers")
            case _:
                said.extend(_read_parts(draft, [block]))
    say()


def _read_parts(draft: Draft, content: Json) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    parts: list[Part] = []
    for value in as_list(content):
        block = as_object(value)
        match block.get("type"):
            case "text":
                text = as_text(block.get("text"))
                if text:
                    parts.append(Text(text))
            case "image":
                draft.add_image(parts, _address(as_object(block.get("source"))))
            case "document":
                _read_document(draft, parts, block)
            case kind:
                draft.drop(f"blocks of type {as_text(kind)[:40]}")
    return tuple(parts)


def _address(source: JsonObject) -> str:
    if source.get("type") == "base64":
        return f"data:{as_text(source.get('media_type'))};base64,{as_text(source.get('data'))}"
    return as_text(source.get("url"))


def _read_document(draft: Draft, parts: list[Part], block: JsonObject) -> None:
    source, title = as_object(block.get("source")), as_text(block.get("title")) or None
    match source.get("type"):
        case "text":
            parts.append(Text(as_text(source.get("data"))))
        case "content":
            parts.extend(_read_parts(draft, source.get("content")))
        case "base64":
            draft.add_file(parts, File(title or "document.pdf", data=_address(source)))
        case _:
            draft.add_file(parts, File(title, url=as_text(source.get("url")) or None))


def _read_tool(draft: Draft, tool: JsonObject) -> None:
    if tool.get("type") not in (None, "custom"):
        draft.drop(f"the tool {as_text(tool.get('name') or tool.get('type'))[:40]}")
        return
    strict = tool.get("strict")
    draft.add_tool(
        Tool(
            as_text(tool.get("name")),
            as_text(tool.get("description")),
            as_object(tool.get("input_schema")),
            strict if isinstance(strict, bool) else None,
        )
    )
