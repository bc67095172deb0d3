"""Draft → Responses. Nothing is stored at the target: every request has the whole conversation."""

from router.contract.request import Json, JsonObject
from router.contract.words import Feature
from router.dialects.fields import as_object
from router.dialects.responses.request import LIMIT_FIELDS
from router.dialects.translate.context import WriteContext, marked_error, optional
from router.dialects.translate.draft import (
    DEFAULT_SCHEMA_NAME,
    Draft,
    DraftCall,
    DraftReasoning,
    DraftResult,
    DraftText,
    File,
    Image,
    Part,
    Text,
    Tool,
    texts,
)
from router.dialects.translate.envelope import REASONING_ITEM, unwrap

_LEAST_OUTPUT = 16
"""Smaller limits are refused."""


def write_draft(draft: Draft, context: WriteContext) -> JsonObject:
    draft.check_pairs()
    if draft.stop:
        draft.drop("stop sequences")
    takes_reasoning = Feature.REASONING in context.target.accepts
    reasoning: JsonObject = {"effort": context.effort(draft), "summary": "auto" if draft.wants_summary else None}
    reasoning = {name: value for name, value in reasoning.items() if value is not None} if takes_reasoning else {}
    text: JsonObject = {"format": _write_schema(draft), "verbosity": draft.verbosity}
    body: JsonObject = {
        "model": context.model,
        "instructions": "\n\n".join(draft.system) or None,
        "input": _write_items(draft, context),
        "tools": optional([_write_tool(tool) for tool in draft.tools.values()]),
        "tool_choice": _write_choice(draft),
        "parallel_tool_calls": draft.parallel if draft.tools else None,
        "text": optional({name: value for name, value in text.items() if value is not None}),
        LIMIT_FIELDS[-1]: context.limit(draft, least=_LEAST_OUTPUT),
        "temperature": draft.temperature,
        "top_p": draft.top_p,
        "reasoning": optional(reasoning),
        "include": ["reasoning.encrypted_content"] if takes_reasoning and draft.wants_envelopes else None,
        "metadata": draft.metadata,
        "safety_identifier": context.user(draft),
        "prompt_cache_key": draft.cache_key,
        "service_tier": context.service_tier(draft),
        "store": False,
        "stream": True if draft.is_streaming else None,
    }
    return context.finish(body, draft)


def _write_items(draft: Draft, context: WriteContext) -> list[Json]:
    items: list[Json] = []
    for line in draft.lines:
        match line:
            case DraftText(role, parts):
                kind, said = "input_text", parts
                if role == "assistant":
                    kind, said = "output_text", draft.spoken(parts, role)
                content: list[Json] = [_write_part(part, kind) for part in said]
                items.append({"type": "message", "role": "developer" if role == "system" else role, "content": content})
            case DraftCall(call_id, name, arguments):
                items.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments})
            case DraftResult():
                items.append({"type": "function_call_output", "call_id": line.call_id, "output": _write_output(line)})
            case DraftReasoning(envelope):
                item = unwrap(envelope, context.target.name, REASONING_ITEM)
                if item is None:
                    draft.drop("reasoning of earlier answers")
                elif item:
                    items.append(item)
    return _without_orphans(draft, items)


def _without_orphans(draft: Draft, items: list[Json]) -> list[Json]:
    """Remove reasoning that nothing follows: alone it is refused."""
    kept: list[Json] = []
    is_followed = False
    for item in reversed(items):
        kind, role = as_object(item).get("type"), as_object(item).get("role")
        if kind != "reasoning":
            is_followed = kind == "function_call" or role == "assistant"
        elif not is_followed:
            draft.drop("reasoning of earlier answers")
            continue
        kept.append(item)
    return kept[::-1]


def _write_output(returned: DraftResult) -> Json:
    text = marked_error(texts(returned.parts), is_error=returned.is_error)
    pictures = [part for part in returned.parts if not isinstance(part, Text)]
    if not pictures:
        return text
    return [{"type": "input_text", "text": text}, *(_write_part(part, "input_text") for part in pictures)]


def _write_part(part: Part, kind: str) -> JsonObject:
    match part:
        case Text(text):
            return {"type": kind, "text": text}
        case Image(url, detail):
            return {"type": "input_image", "image_url": url, "detail": detail or "auto"}
        case File(name, data, url, _):
            file: JsonObject = {"filename": None if url else name, "file_data": data, "file_url": url}
            return {"type": "input_file", **{key: value for key, value in file.items() if value}}


def _write_tool(tool: Tool) -> JsonObject:
    name, description, schema, strict, _ = tool
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": schema or {"type": "object", "properties": {}},
        "strict": bool(strict),  # absent means true, which refuses schemas not made for it
    }


def _write_choice(draft: Draft) -> Json:
    if draft.choice is None or not draft.tools:
        return None
    mode, name = draft.choice
    if mode == "one":
        return {"type": "function", "name": name}
    return "required" if mode == "any" else mode


def _write_schema(draft: Draft) -> Json:
    if draft.schema is None:
        return None
    schema, name, strict, description = draft.schema
    if schema is None:
        return {"type": "json_object"}
    form: JsonObject = {"type": "json_schema", "name": name or DEFAULT_SCHEMA_NAME, "schema": schema, "strict": bool(strict)}
    return form if description is None else {**form, "description": description}
