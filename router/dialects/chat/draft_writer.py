"""Draft → Chat Completions."""

from router.contract.request import Json, JsonObject
from router.dialects.chat.draft_messages import mark_ends, write_messages
from router.dialects.hosts import STREAM_OPTIONS
from router.dialects.translate.context import WriteContext, marked, optional
from router.dialects.translate.draft import DEFAULT_SCHEMA_NAME, Draft, Tool

_MAX_STOPS = 4
"""Requests with more are refused."""


def write_draft(draft: Draft, context: WriteContext) -> JsonObject:
    draft.check_pairs()
    if draft.metadata:
        draft.drop("metadata")  # only stored answers have it
    messages, takes_marks = write_messages(draft, context), context.caches_when_asked
    body: JsonObject = {
        "model": context.model,
        "messages": messages,
        "tools": optional([_write_tool(tool, takes_marks=takes_marks) for tool in draft.tools.values()]),
        "tool_choice": _write_choice(draft),
        "parallel_tool_calls": draft.parallel if draft.tools else None,
        "response_format": _write_schema(draft),
        context.quirks.limit_field: context.limit(draft),
        "stop": _write_stops(draft),
        "temperature": draft.temperature,
        "top_p": draft.top_p,
        "reasoning_effort": context.effort(draft),
        "verbosity": draft.verbosity,
        "safety_identifier": context.user(draft),
        "prompt_cache_key": draft.cache_key,
        "service_tier": context.service_tier(draft),
    }
    mark = context.end_mark(draft)
    if mark is not None:
        mark_ends(messages, mark)
    if draft.is_streaming:
        body["stream"] = True
        if STREAM_OPTIONS not in context.quirks.refuses:
            body[STREAM_OPTIONS] = {"include_usage": True}
    return context.finish(body, draft)


def _write_stops(draft: Draft) -> Json:
    if len(draft.stop) > _MAX_STOPS:
        draft.drop(f"stop sequences after the first {_MAX_STOPS}")
    return optional(list[Json](draft.stop[:_MAX_STOPS]))


def _write_tool(tool: Tool, *, takes_marks: bool) -> JsonObject:
    name, description, schema, strict, mark = tool
    function: JsonObject = {
        "name": name,
        "description": description,
        "parameters": schema or {"type": "object", "properties": {}},
    }
    if strict is not None:
        function["strict"] = strict
    written: JsonObject = {"type": "function", "function": function}
    return marked(written, mark) if takes_marks else written


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
    schema, name, strict, description = draft.schema
    if schema is None:
        return {"type": "json_object"}
    given: JsonObject = {"name": name or DEFAULT_SCHEMA_NAME, "schema": schema}
    if description is not None:
        given["description"] = description
    if strict is not None:
        given["strict"] = strict
    return {"type": "json_schema", "json_schema": given}
