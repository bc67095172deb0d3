"""The request settings that every response repeats, as the API requires."""

import orjson

from router.contract.digits import as_written
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.responses.request import LIMIT_FIELDS

_LIMITS = (*LIMIT_FIELDS, "max_tool_calls")
_NAMES = ("instructions", "safety_identifier", "prompt_cache_key", "previous_response_id")
_FACTORS = {"temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}


def say_back(asked: JsonObject) -> JsonObject:
    """A request's settings, or the API's defaults.

    Values of a wrong type count as absent. If one is too deep or large to write, all do: an answer is not lost for that.
    """
    said = _read_settings(asked)
    try:
        orjson.dumps([[said]], default=as_written)  # as deep as in an event
    except orjson.JSONEncodeError:
        return _read_settings({})
    return said


def _read_settings(asked: JsonObject) -> JsonObject:
    tier, user = as_text(asked.get("service_tier")), as_text(asked.get("user"))
    said: JsonObject = {
        "tools": [_read_tool(tool) for tool in map(as_object, as_list(asked.get("tools"))) if as_text(tool.get("type"))],
        "tool_choice": _read_choice(asked.get("tool_choice")),
        "parallel_tool_calls": asked.get("parallel_tool_calls") is not False,
        "metadata": {name: value for name, value in as_object(asked.get("metadata")).items() if isinstance(value, str)},
        "text": _read_text(as_object(asked.get("text"))),
        "reasoning": _read_reasoning(as_object(asked.get("reasoning"))),
        "truncation": "auto" if asked.get("truncation") == "auto" else "disabled",
        "store": asked.get("store") is not False,
        "background": asked.get("background") is True,
        "service_tier": tier if tier not in ("", "auto") else "default",
        "top_logprobs": _whole(asked.get("top_logprobs")) or 0,
    }
    for name, default in _FACTORS.items():
        value = asked.get(name)
        said[name] = value if isinstance(value, int | float) and not isinstance(value, bool) else default
    said |= {name: _whole(asked.get(name)) for name in _LIMITS}
    said |= {name: as_text(asked.get(name)) or None for name in _NAMES}
    if user:
        said["user"] = user  # the only one that must not be null
    return said


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read_tool(tool: JsonObject) -> JsonObject:
    if tool["type"] != "function":
        return tool
    parameters, strict = as_object(tool.get("parameters")) or None, tool.get("strict")
    return {**tool, **_read_named(tool), "parameters": parameters, "strict": strict if isinstance(strict, bool) else None}


def _read_choice(choice: Json) -> Json:
    if isinstance(choice, dict):
        return choice if as_text(choice.get("type")) else "auto"
    return choice if choice in ("none", "required") else "auto"


def _read_named(thing: JsonObject) -> JsonObject:
    return {"name": as_text(thing.get("name")), "description": as_text(thing.get("description")) or None}


def _read_reasoning(reasoning: JsonObject) -> JsonObject:
    return {**reasoning, **{name: as_text(reasoning.get(name)) or None for name in ("effort", "summary")}}


def _read_text(text: JsonObject) -> JsonObject:
    form = as_object(text.get("format"))
    match form.get("type"):
        case "json_schema":
            schema = as_object(form.get("schema")) or None
            form = {**form, **_read_named(form), "schema": schema, "strict": form.get("strict") is True}
        case "json_object":
            form = {"type": "json_object"}
        case _:
            form = {"type": "text"}
    return {**text, "format": form, "verbosity": as_text(text.get("verbosity")) or "medium"}
