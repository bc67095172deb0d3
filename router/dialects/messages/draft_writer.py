"""Draft → Anthropic Messages: roles alternate, and results come first in the user's messages."""

from router.contract.errors import Misfit
from router.contract.request import Json, JsonObject
from router.contract.words import Feature
from router.dialects.composer import plain_id
from router.dialects.fields import as_list, as_object
from router.dialects.messages.compose import parse_input
from router.dialects.messages.request import LIMIT_FIELDS
from router.dialects.translate.context import WriteContext, marked, optional
from router.dialects.translate.draft import (
    Draft,
    DraftCall,
    DraftReasoning,
    DraftResult,
    DraftText,
    File,
    Image,
    Line,
    Part,
    Schema,
    Text,
    Tool,
    cannot_carry,
    last_mark,
    split_data_url,
    texts,
)
from router.dialects.translate.envelope import THINKING_BLOCK, unwrap

_DEFAULT_MAX_TOKENS = 32_000
"""Messages require a limit, which callers of other dialects may omit."""
_JSON_ONLY = "Answer with one valid JSON object and nothing else: no words before or after it, and no code fence."
_EFFORTS = {"minimal": "low", "xhigh": "max", "ultra": "max"}


def write_draft(draft: Draft, context: WriteContext) -> JsonObject:
    draft.check_pairs()
    for name, value in (
        ("verbosity", draft.verbosity),
        ("prompt_cache_key", draft.cache_key),
        ("service_tier", draft.service_tier),
        ("metadata", draft.metadata),
        ("the name of the answer's schema", draft.schema is not None and draft.schema.name),
    ):
        if value:
            draft.drop(name)
    effort = context.effort(draft, _EFFORTS)
    is_thinking = Feature.REASONING in context.target.accepts and (effort not in (None, "none") or draft.wants_summary)
    if is_thinking and draft.choice is not None and draft.choice.mode in ("any", "one"):
        is_thinking = False
        draft.drop("thinking, together with a required tool call")
    output: JsonObject = {}
    if effort not in (None, "none"):
        output["effort"] = effort
    if draft.schema is not None:
        if draft.schema.schema is None:
            draft.system.append(_JSON_ONLY)
        else:
            output["format"] = {"type": "json_schema", "schema": _write_schema(draft.schema)}
    messages = _write_messages(draft, context) or _write_last_words(draft)
    if is_thinking and (draft.temperature is not None or draft.top_p is not None):
        draft.drop("temperature and top_p, together with thinking")
    body: JsonObject = {
        "model": context.model,
        LIMIT_FIELDS[-1]: context.limit(draft, _DEFAULT_MAX_TOKENS),
        "system": optional(_write_system(draft)),
        "messages": messages,
        "tools": optional([_write_tool(tool) for tool in draft.tools.values()]),
        "tool_choice": _write_choice(draft),
        "output_config": optional(output),
        "thinking": {"type": "adaptive"} if is_thinking else None,
        "stop_sequences": _write_stops(draft),
        **({} if is_thinking else _write_sampling(draft)),
        "metadata": {"user_id": draft.user} if draft.user else None,
        "stream": True if draft.is_streaming else None,
    }
    mark = context.end_mark(draft)
    if mark is not None:
        _mark_ends(body, messages, mark)
    return context.finish(body, draft)


def _write_system(draft: Draft) -> list[Json]:
    places = enumerate(draft.system)
    return [marked({"type": "text", "text": text}, draft.system_marks.get(index)) for index, text in places if text]


def _mark_ends(body: JsonObject, messages: list[Json], mark: JsonObject) -> None:
    """Mark tools and system, which other sessions share, and the conversation so far."""
    said = next((blocks for role, blocks in map(_role_and_blocks, reversed(messages)) if role == "user" and blocks), [])
    for blocks in (as_list(body["system"]) or as_list(body["tools"]), said):
        if blocks and not as_object(blocks[-1]).get("cache_control"):
            blocks[-1] = marked(as_object(blocks[-1]), mark)


def _role_and_blocks(message: Json) -> tuple[Json, list[Json]]:
    written = as_object(message)
    return written.get("role"), as_list(written.get("content"))


def _write_schema(schema: Schema) -> Json:
    found = schema.schema or {}
    return {"description": schema.description, **found} if schema.description else found


def _write_last_words(draft: Draft) -> list[Json]:
    """Answer the last system text if the conversation is blank: blank texts are refused."""
    words = [text for text in draft.system if text.strip() and text != _JSON_ONLY]
    if not words:
        raise Misfit("messages: nothing is left that a Messages target accepts, and it rejects empty text")
    draft.system.remove(words[-1])
    return [{"role": "user", "content": [{"type": "text", "text": words[-1]}]}]


def _write_stops(draft: Draft) -> Json:
    stops: list[Json] = [word for word in draft.stop if word.strip()]
    if len(stops) < len(draft.stop):
        draft.drop("blank stop sequences")
    return optional(stops)


def _write_sampling(draft: Draft) -> JsonObject:
    """Temperatures end at 1, and only one sampling field is accepted."""
    if draft.temperature is None:
        return {"top_p": draft.top_p}
    if draft.top_p is not None:
        draft.drop("top_p, together with temperature")
    if draft.temperature > 1:
        draft.drop("temperature lowered to 1")
    return {"temperature": min(1.0, max(0.0, draft.temperature))}


def _write_messages(draft: Draft, context: WriteContext) -> list[Json]:
    """One message per change of role: results and thinking must be next to what they belong to."""
    turns: list[tuple[str, list[Json]]] = []
    for line in draft.lines:
        role, blocks = _write_line(draft, line, context)
        if not blocks:
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    for role, blocks in turns:
        if role == "user":
            # A stable sort: results first.
            blocks.sort(key=lambda block: isinstance(block, dict) and block.get("type") != "tool_result")
    return [{"role": role, "content": blocks} for role, blocks in turns]


def _write_line(draft: Draft, line: Line, context: WriteContext) -> tuple[str, list[Json]]:
    match line:
        case DraftText("system", parts):
            words = texts(draft.spoken(parts, "system"))
            reminder: JsonObject = {"type": "text", "text": f"<system-reminder>\n{words}\n</system-reminder>"}
            return "user", [marked(reminder, last_mark(parts))] if words else []
        case DraftText("assistant", parts):
            return "assistant", [block for part in draft.spoken(parts, "assistant") if (block := _write_part(draft, part))]
        case DraftText(role, parts):
            return role, [block for part in parts if (block := _write_part(draft, part))]
        case DraftCall(call_id, name, arguments):
            call: JsonObject = {"type": "tool_use", "id": plain_id(call_id), "name": name, "input": parse_input(arguments)}
            return "assistant", [marked(call, line.mark)]
        case DraftResult(call_id, parts, is_error):
            content: list[Json] = [block for part in parts if (block := _write_block(draft, part))]
            result: JsonObject = {"type": "tool_result", "tool_use_id": plain_id(call_id), "content": content}
            result = marked(result, line.mark or last_mark(parts))
            return "user", [{**result, "is_error": True} if is_error else result]
        case DraftReasoning(envelope):
            state = unwrap(envelope, context.target.name, THINKING_BLOCK)
            if state is None:
                draft.drop("reasoning of earlier answers")
            return "assistant", [state] if state else []


def _write_part(draft: Draft, part: Part) -> JsonObject | None:
    block = _write_block(draft, part)
    return None if block is None else marked(block, part.mark)


def _write_block(draft: Draft, part: Part) -> JsonObject | None:
    match part:
        case Text(text):
            return {"type": "text", "text": text} if text.strip() else None
        case Image(url, detail):
            if detail not in (None, "auto"):
                draft.drop("detail of images")
            return {"type": "image", "source": _write_source(url)}
        case File(name, data, url, _):
            inside = split_data_url(data) if data else None
            if inside is not None and inside[0] != "application/pdf":
                raise cannot_carry(f"a file of type {inside[0][:60]}")
            document: JsonObject = {"type": "document", "source": _write_source(data or url or "")}
            return {**document, "title": name} if name else document


def _write_source(url: str) -> JsonObject:
    inside = split_data_url(url)
    if inside is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": inside[0], "data": inside[1]}


def _write_tool(tool: Tool) -> JsonObject:
    name, description, schema, strict, mark = tool
    written: JsonObject = {
        "name": name,
        "description": description,
        "input_schema": schema if schema.get("type") == "object" else {"type": "object", "properties": {}, **schema},
    }
    return marked({**written, "strict": True} if strict else written, mark)


def _write_choice(draft: Draft) -> Json:
    if not draft.tools or (draft.choice is None and draft.parallel is not False):
        return None
    mode, name = draft.choice or ("auto", None)
    choice: JsonObject = {"type": "tool", "name": name} if mode == "one" else {"type": mode}
    if draft.parallel is False and mode != "none":
        choice["disable_parallel_tool_use"] = True
    return choice
