"""Anthropic Messages → draft."""

import orjson

from router.contract.digits import as_written
from router.contract.errors import BadRequest
from router.contract.request import JsonObject
from router.dialects.client_tools import MESSAGES_TOOLS
from router.dialects.messages.request import LIMIT_FIELDS
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
    mark_last,
)
from router.dialects.translate.envelope import is_wrapped

_READ = frozenset(
    """
    model messages system tools tool_choice stop_sequences stream temperature top_p thinking output_config
    metadata cache_control
    """.split()
).union(LIMIT_FIELDS)
_READ_OF_METADATA = frozenset({"user_id"})
_READ_OF_OUTPUT = frozenset({"effort", "format"})
_READ_OF_THINKING = frozenset({"type", "budget_tokens", "display"})
_READ_OF_MESSAGE = frozenset({"role", "content"})
_READ_OF_TOOL = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control"})
_READ_OF_CLIENT_TOOL = frozenset({"type", "name", "max_characters", "cache_control"})
_READ_OF_PART = frozenset({"type", "text", "source", "title", "context", "content", "citations", "cache_control"})
_READ_OF_CALL = frozenset({"type", "id", "name", "input", "caller", "cache_control"})
_READ_OF_RESULT = frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"})
_BUDGET_EFFORTS = ((4_000, "low"), (16_000, "medium"))
"""Effort by budget of thinking tokens; `high` above the last."""


def read_draft(body: JsonObject) -> Draft:
    draft = Draft(wants_envelopes=True, marks_itself=True)
    draft.end_mark = draft.read_mark(body)
    for tool, where in expect.entries(expect.sequence(body, "tools"), "tools"):
        _read_tool(draft, tool, where)
    draft.add_system(_read_content(draft, expect.content(body, "system", "", may_be_absent=True)))
    for message, where in expect.entries(expect.sequence(body, "messages"), "messages"):
        _read_message(draft, message, where)
    choice = expect.mapping(body, "tool_choice")
    if choice:
        mode, name = expect.text(choice, "type", "tool_choice"), expect.text(choice, "name", "tool_choice")
        draft.choose("one" if mode == "tool" else mode, draft.name_tool(name) if name else None)
        if expect.flag(choice, "disable_parallel_tool_use", "tool_choice"):
            draft.parallel = False
    draft.max_tokens = expect.first_whole(body, LIMIT_FIELDS)
    draft.stop = expect.words(expect.sequence(body, "stop_sequences"), "stop_sequences")
    draft.read_sampling(body)
    _read_thinking(draft, body)
    metadata = expect.mapping(body, "metadata")
    draft.user = expect.text(metadata, "user_id", "metadata") or None
    draft.drop_unread_of("metadata", metadata, _READ_OF_METADATA)
    draft.drop_unread(body, _READ)
    return draft


def _read_thinking(draft: Draft, body: JsonObject) -> None:
    output, thinking = expect.mapping(body, "output_config"), expect.mapping(body, "thinking")
    form = expect.mapping(output, "format", "output_config")
    if expect.text(form, "type", "output_config.format") == "json_schema":
        draft.schema = Schema(expect.needed_mapping(form, "schema", "output_config.format"), is_strict=True)
    draft.effort = expect.text(output, "effort", "output_config") or None
    draft.drop_unread_of("output_config", output, _READ_OF_OUTPUT)
    draft.drop_unread_of("thinking", thinking, _READ_OF_THINKING)
    kind = expect.text(thinking, "type", "thinking")
    draft.wants_thoughts = kind in ("adaptive", "enabled")
    draft.wants_summary = draft.wants_thoughts and thinking.get("display") != "omitted"
    if kind == "disabled":
        draft.drop("thinking: disabled")
    budget = expect.whole(thinking, "budget_tokens", "thinking")
    if draft.effort is None and kind == "enabled" and budget is not None:
        draft.effort = next((effort for most, effort in _BUDGET_EFFORTS if budget < most), "high")


def _read_message(draft: Draft, message: JsonObject, where: str) -> None:
    role = expect.text(message, "role", where)
    if role not in ("user", "assistant", "system"):
        raise BadRequest(f'{where}.role: unknown role "{role[:40]}"', param=f"{where}.role")
    draft.drop_unread_of("messages", message, _READ_OF_MESSAGE)
    content = expect.content(message, "content", where)
    if isinstance(content, str):
        draft.lines.append(DraftText(role, (Text(content),)))
        return
    said: list[Part] = []
    lost, lines = draft.lost_parts, len(draft.lines)

    def say() -> None:
        if said:
            draft.lines.append(DraftText(role, tuple(said)))
            said.clear()

    for block, path in content:
        match expect.needed_text(block, "type", path):
            case "tool_use":
                say()
                draft.lines.append(_read_call(draft, block, path))
                draft.drop_unread_of("calls", block, _READ_OF_CALL)
            case "tool_result":
                say()
                parts = _read_content(draft, expect.content(block, "content", path, may_be_absent=True))
                is_error = expect.flag(block, "is_error", path) is True
                call_id = expect.needed_text(block, "tool_use_id", path)
                draft.lines.append(DraftResult(call_id, parts, is_error, draft.read_mark(block)))
                draft.drop_unread_of("results", block, _READ_OF_RESULT)
            case "thinking" | "redacted_thinking":
                say()
                signature = expect.text(block, "signature", path) or expect.text(block, "data", path)
                if is_wrapped(signature):
                    draft.lines.append(DraftReasoning(signature))
                else:
                    draft.drop("reasoning of earlier answers")
            case _:
                _read_part(draft, said, block, path)
    say()
    if role != "assistant" and len(draft.lines) == lines:
        draft.check_said((), lost, where)


def _read_call(draft: Draft, block: JsonObject, where: str) -> DraftCall:
    arguments = orjson.dumps(expect.mapping(block, "input", where), default=as_written).decode()
    name = draft.name_tool(expect.needed_text(block, "name", where))
    return DraftCall(expect.needed_text(block, "id", where), name, arguments, draft.read_mark(block))


def _read_content(draft: Draft, content: str | list[tuple[JsonObject, str]]) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    parts: list[Part] = []
    for block, path in content:
        _read_part(draft, parts, block, path)
    return tuple(parts)


def _read_part(draft: Draft, parts: list[Part], block: JsonObject, where: str) -> None:
    before = len(parts)
    _read_block(draft, parts, block, where)
    if len(parts) > before:
        draft.drop_unread_of("parts", block, _READ_OF_PART)
    mark_last(parts, before, draft.read_mark(block))


def _read_block(draft: Draft, parts: list[Part], block: JsonObject, where: str) -> None:
    match expect.needed_text(block, "type", where):
        case "text":
            _add_text(parts, expect.text(block, "text", where))
            if block.get("citations"):
                draft.drop("citations")
        case "image":
            draft.add_image(
                parts, f"{where}.source", _address(expect.needed_mapping(block, "source", where), f"{where}.source")
            )
        case "document":
            _read_document(draft, parts, block, where)
        case "search_result":
            _add_text(parts, "\n".join(filter(None, (expect.text(block, "title", where), expect.text(block, "source", where)))))
            parts.extend(_read_content(draft, expect.content(block, "content", where)))
            _drop_citations(draft, block, where)
        case "compaction":
            # A host's summary of the conversation, in plain text.
            _add_text(parts, expect.text(block, "content", where))
        case kind:
            draft.drop_part(kind, where)


def _add_text(parts: list[Part], text: str) -> None:
    if text:
        parts.append(Text(text))


def _address(source: JsonObject, where: str) -> str:
    if expect.needed_text(source, "type", where) == "base64":
        media_type, data = expect.needed_text(source, "media_type", where), expect.needed_text(source, "data", where)
        return f"data:{media_type};base64,{data}"
    return expect.text(source, "url", where)


def _drop_citations(draft: Draft, block: JsonObject, where: str) -> None:
    if expect.mapping(block, "citations", where).get("enabled"):
        draft.drop("citations")


def _read_document(draft: Draft, parts: list[Part], block: JsonObject, where: str) -> None:
    source, path = expect.needed_mapping(block, "source", where), f"{where}.source"
    title, context = expect.text(block, "title", where), expect.text(block, "context", where)
    about = "\n".join(filter(None, (f"{title}:" if title else "", context)))
    _drop_citations(draft, block, where)
    match expect.needed_text(source, "type", path):
        case "text":
            _add_text(parts, "\n".join(filter(None, (about, expect.text(source, "data", path)))))
        case "content":
            _add_text(parts, about)
            parts.extend(_read_content(draft, expect.content(source, "content", path)))
        case "base64":
            _add_text(parts, context)
            draft.add_file(parts, path, File(title or "document.pdf", data=_address(source, path)))
        case _:
            # Files by address have no title in other dialects.
            _add_text(parts, about)
            draft.add_file(parts, path, File(url=expect.text(source, "url", path) or None))


def _read_tool(draft: Draft, tool: JsonObject, where: str) -> None:
    kind = expect.text(tool, "type", where)
    if kind in MESSAGES_TOOLS:
        name, description, schema, _ = MESSAGES_TOOLS[kind]
        if limit := expect.whole(tool, "max_characters", where):
            description = f"{description} A view shows at most {limit} characters."
        draft.add_tool(Tool(expect.text(tool, "name", where) or name, description, schema))
        draft.drop_unread_of("tools", tool, _READ_OF_CLIENT_TOOL)
        return
    if kind not in ("", "custom"):
        draft.drop(f"the tool {(expect.text(tool, 'name', where) or kind)[:40]}")
        return
    name, description = expect.needed_text(tool, "name", where), expect.text(tool, "description", where)
    schema, strict = expect.mapping(tool, "input_schema", where), expect.flag(tool, "strict", where)
    draft.add_tool(Tool(name, description, schema, strict, draft.read_mark(tool)))
    draft.drop_unread_of("tools", tool, _READ_OF_TOOL)
