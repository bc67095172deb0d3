"""What a request of any dialect asks of a simulated model: tools, JSON, a length, stops."""

from dataclasses import dataclass, field

from router.contract.request import Json, JsonObject
from router.dialects.composer import Shape
from router.dialects.fields import as_list, as_object, as_text

_FORCED = ("required", "any")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the model may call; a free-form one may have a pattern instead of a schema."""

    name: str
    schema: JsonObject = field(default_factory=dict)
    is_custom: bool = False
    input_pattern: str = ""
    namespace: str | None = None

    @property
    def shape(self) -> Shape:
        return Shape(self.name, self.namespace, self.is_custom)


@dataclass(frozen=True, slots=True)
class Choice:
    tools: tuple[OfferedTool, ...]
    is_forced: bool = False


def offered_tools(body: JsonObject) -> list[OfferedTool]:
    """Functions and free-form tools, also in namespaces, but not those that hosts run."""
    found = []
    for value in as_list(body.get("tools")):
        tool = as_object(value)
        if tool.get("type") == "namespace":
            inner = (_read_tool(as_object(entry), as_text(tool.get("name"))) for entry in as_list(tool.get("tools")))
            found += [entry for entry in inner if entry is not None]
        elif (read := _read_tool(tool)) is not None:
            found.append(read)
    return found


def _read_tool(tool: JsonObject, namespace: str | None = None) -> OfferedTool | None:
    """Chat nests the definition. In Messages, `custom` and untyped tools are functions."""
    kind, schema = tool.get("type"), tool.get("input_schema")
    inner = as_object(tool.get("function")) or as_object(tool.get("custom")) or tool
    name = as_text(inner.get("name"))
    if not name:
        return None
    if isinstance(schema, dict) and kind in (None, "custom"):
        return OfferedTool(name, schema, namespace=namespace)
    if kind == "custom":
        grammar = as_object(inner.get("format"))
        grammar = as_object(grammar.get("grammar")) or grammar
        pattern = as_text(grammar.get("definition")) if grammar.get("syntax") == "regex" else ""
        return OfferedTool(name, is_custom=True, input_pattern=pattern, namespace=namespace)
    if kind == "function":
        return OfferedTool(name, as_object(inner.get("parameters")), namespace=namespace)
    return None


def read_choice(body: JsonObject) -> Choice:
    tools, given = offered_tools(body), body.get("tool_choice")
    choice = as_object(given)
    kind = given if isinstance(given, str) else as_text(choice.get("type"))
    if kind == "none":
        return Choice(())
    if kind == "allowed_tools":
        allowed = as_object(choice.get("allowed_tools")) or choice
        names = {_named(entry) for entry in as_list(allowed.get("tools"))}
        return Choice(tuple(tool for tool in tools if tool.name in names), allowed.get("mode") == "required")
    if name := _named(choice):
        return Choice(tuple(tool for tool in tools if tool.name == name), is_forced=True)
    return Choice(tuple(tools), kind in _FORCED)


def _named(value: Json) -> str:
    entry = as_object(value)
    inner = as_object(entry.get("function")) or as_object(entry.get("custom")) or entry
    return as_text(inner.get("name"))


def find_orphan(body: JsonObject) -> str:
    """The id of a Responses output without its call, which hosts refuse; empty if none."""
    calls: set[str] = set()
    for item in map(as_object, as_list(body.get("input"))):
        call_id = as_text(item.get("call_id"))
        if item.get("type") in ("function_call_output", "custom_tool_call_output") and call_id not in calls:
            return call_id
        calls.add(call_id)
    return ""


def wanted_schema(body: JsonObject) -> JsonObject | None:
    chat = as_object(as_object(body.get("response_format")).get("json_schema")).get("schema")
    responses = as_object(as_object(body.get("text")).get("format")).get("schema")
    config = as_object(as_object(body.get("output_config")).get("format")).get("schema")
    older = as_object(body.get("output_format")).get("schema")
    return next((schema for schema in (chat, responses, config, older) if isinstance(schema, dict)), None)


def wants_json(body: JsonObject) -> bool:
    formats = (body.get("response_format"), as_object(body.get("text")).get("format"))
    return any(as_object(entry).get("type") in ("json_object", "json_schema") for entry in formats)


def read_stops(body: JsonObject) -> tuple[str, ...]:
    given = body.get("stop_sequences") or body.get("stop")
    return tuple(stop for stop in (given if isinstance(given, list) else [given]) if isinstance(stop, str) and stop)


def lacks(body: JsonObject) -> str | None:
    """What the request asks for that needs a model, in words."""
    if body.get("n") not in (None, 1):
        return "n: only one answer is given. Send n: 1, or leave it out."
    wants = body.get("logprobs"), body.get("top_logprobs"), "message.output_text.logprobs" in as_list(body.get("include"))
    return "logprobs: simulated answers have no probabilities. Leave it out." if any(wants) else None
