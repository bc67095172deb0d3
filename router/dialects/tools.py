"""The tools that a request offers, in whichever dialect, and the smallest values that fit a JSON schema."""

from dataclasses import dataclass

from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object, as_text

_DEEPEST = 6
_HARMLESS_TEXTS = {"command": "ls", "cmd": "ls", "path": ".", "directory": ".", "pattern": "*", "title": "Simulated title"}


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A function that the model may call."""

    name: str
    schema: JsonObject


def offered_tools(body: JsonObject) -> list[OfferedTool]:
    """Function tools only: chat nests them, responses and messages do not, each with its own name for the schema."""
    tools = []
    for value in as_list(body.get("tools")):
        tool = as_object(value)
        function = as_object(tool.get("function")) or tool
        schema = function.get("parameters") or function.get("input_schema")
        name = as_text(function.get("name"))
        if name and isinstance(schema, dict) and tool.get("type", "function") in ("function", "custom"):
            tools.append(OfferedTool(name, schema))
    return tools


def wanted_schema(body: JsonObject) -> JsonObject | None:
    """The JSON schema that the answer must fit, if the request gives one."""
    chat = as_object(as_object(body.get("response_format")).get("json_schema")).get("schema")
    responses = as_object(as_object(body.get("text")).get("format")).get("schema")
    messages = as_object(as_object(body.get("output_config")).get("format")).get("schema")
    return next((schema for schema in (chat, responses, messages) if isinstance(schema, dict)), None)


def minimal_instance(schema: JsonObject, name: str = "", depth: int = 0) -> Json:
    """A small value that fits a schema's plain parts: types, required properties, enums. References are not followed."""
    if "const" in schema:
        return schema["const"]
    options = as_list(schema.get("enum"))
    if options:
        return options[0]
    for key in ("anyOf", "oneOf", "allOf"):
        branches = as_list(schema.get(key))
        if branches:
            return minimal_instance(as_object(branches[0]), name, depth + 1) if depth < _DEEPEST else None
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((entry for entry in kind if entry != "null"), "null")
    match kind:
        case "object" | None if kind or "properties" in schema:
            properties = as_object(schema.get("properties"))
            if depth >= _DEEPEST:
                return {}
            required = [as_text(entry) for entry in as_list(schema.get("required"))]
            return {key: minimal_instance(as_object(properties.get(key)), key, depth + 1) for key in required}
        case "array":
            items = as_object(schema.get("items"))
            if name in ("command", "cmd"):
                return ["ls"]
            return [minimal_instance(items, name, depth + 1)] if schema.get("minItems") and depth < _DEEPEST else []
        case "integer" | "number":
            least = schema.get("minimum")
            return least if isinstance(least, (int, float)) else 1
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return _HARMLESS_TEXTS.get(name.lower(), "simulated")
