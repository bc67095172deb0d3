"""What a simulated model says: canned words, a tool call, or JSON, as short as the request wants."""

import re
from dataclasses import dataclass, field

import orjson

from adapters.simulated_pattern import text_for
from adapters.simulated_request import (
    Choice,
    OfferedTool,
    read_choice,
    read_stops,
    wanted_schema,
    wants_json,
)
from adapters.simulated_schema import fitting_value
from router.contract.request import Json, Message, RequestView
from router.contract.words import Feature, Tier
from router.dialects.composer import ComposedCall, Finish, Shape
from router.dialects.table import SPECS

_SHELLS = ("exec_command", "shell", "bash", "run_shell_command", "run_terminal_command", "execute_command", "run_command")
_READS = re.compile(
    r"^(get|list|read|search|find|ls|view|show|look|check|glob|grep|status|current|ping|echo|describe|query|fetch|count)",
    re.IGNORECASE,
)
_ASKS = (
    r"\b(?:use|using|call|calling|run|invoke|with|try)\b[^.!?\n]{0,40}?(?<![\w-])NAME(?![\w-])"
    r"|(?<![\w-])NAME\b (?:tool|function)\b"
)
_TOKENS_PER_CALL = 12
_PADDING = "These words only fill the stream at the tier's speed. "
_PIECES = re.compile(r"\s*\S{1,6}|\s+$")
"""About a token each. Joined, they are the whole text."""


@dataclass(frozen=True, slots=True)
class SimulatedAnswer:
    pieces: list[str]
    calls: list[ComposedCall] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    finish: Finish = Finish.STOP
    stopped_by: str | None = None

    @property
    def tokens(self) -> int:
        return max(1, len(self.pieces) + _TOKENS_PER_CALL * len(self.calls))


def write_answer(view: RequestView, tier: Tier, tokens: int) -> SimulatedAnswer:
    choice = read_choice(view.body)
    tool = _pick_tool(view, choice)
    text = _write_text(view, tier, tokens, tool, is_forced=choice.is_forced)
    stop = min((stop for stop in read_stops(view.body) if stop in text), key=text.index, default=None)
    if stop is not None:
        text, tool = text[: text.index(stop)], None
    pieces, limit = _PIECES.findall(text), SPECS[view.dialect].read_limit(view.body)
    needed = len(pieces) + (_TOKENS_PER_CALL if tool is not None else 0)
    if limit is not None and needed > limit:
        return SimulatedAnswer(pieces[:limit], finish=Finish.LENGTH)
    if tool is None:
        return SimulatedAnswer(pieces, stopped_by=stop)
    call = ComposedCall(f"call_{view.id.removeprefix('req_')}", tool.name, _write_arguments(tool))
    return SimulatedAnswer(pieces, [call], {tool.name: tool.shape})


def _write_text(view: RequestView, tier: Tier, tokens: int, tool: OfferedTool | None, *, is_forced: bool) -> str:
    schema, is_json = wanted_schema(view.body), wants_json(view.body)
    if tool is not None:
        is_bare = is_forced or is_json or schema is not None
        return "" if is_bare else f"This is Tandem's simulated {tier} tier. It looks around first."
    if schema is not None:
        return _write_json(fitting_value(schema))
    if is_json:
        return _write_json({"answer": f"This is Tandem's simulated {tier} tier: no model was asked."})
    if Feature.COMPLETIONS in view.needs:
        return "return a + b  # simulated"
    opening = f"This is Tandem's simulated {tier} tier: no model was asked. "
    filler = "Configure real targets in config.yaml (tandem init helps) to get answers from a model. "
    words = opening + filler
    missing = tokens - len(_PIECES.findall(words.rstrip()))
    return (words + _PADDING * max(0, -(-missing // len(_PIECES.findall(_PADDING.rstrip()))))).rstrip()


def _pick_tool(view: RequestView, choice: Choice) -> OfferedTool | None:
    """The best tool if a call is required, else one that is asked for or harmless, once."""
    tools = choice.tools
    if choice.is_forced:
        return _asked_tool(view, tools) or _harmless_tool(tools) or next(iter(tools), None)
    last = _last_said(view)
    if last is not None and last.results:
        return None
    return _asked_tool(view, tools) or _harmless_tool(tools) or _only_free_form(tools)


def _last_said(view: RequestView) -> Message | None:
    """The last message but for system messages: some clients end with one that lists their tools."""
    return next((message for message in reversed(view.conversation) if message.role not in ("system", "developer")), None)


def _asked_tool(view: RequestView, tools: tuple[OfferedTool, ...]) -> OfferedTool | None:
    """A tool that the last message asks for, outside the client's tags; "write" or "edit" alone do not count."""
    last = _last_said(view) if tools else None
    words = "\n".join(text for text in last.texts if not text.startswith("<"))[:4_000] if last is not None else ""
    return next((tool for tool in tools if _is_asked_for(tool.name, words)), None)


def _is_asked_for(name: str, words: str) -> bool:
    return name in words and re.search(_ASKS.replace("NAME", re.escape(name)), words, re.IGNORECASE) is not None


def _harmless_tool(tools: tuple[OfferedTool, ...]) -> OfferedTool | None:
    """A shell, to list files, or a tool whose name says that it only reads."""
    by_name = {tool.name.lower(): tool for tool in tools}
    for name in _SHELLS:
        if name in by_name:
            return by_name[name]
    return next((tool for tool in tools if _READS.match(tool.name)), None)


def _only_free_form(tools: tuple[OfferedTool, ...]) -> OfferedTool | None:
    """A free-form tool if no other kind is offered: such a client wants to see one called."""
    return tools[0] if tools and all(tool.is_custom for tool in tools) else None


def _write_arguments(tool: OfferedTool) -> str:
    if tool.is_custom:
        return text_for(tool.input_pattern) if tool.input_pattern else "simulated"
    arguments = fitting_value({"type": "object", **tool.schema})
    return _write_json(arguments if isinstance(arguments, dict) else {})


def _write_json(value: Json) -> str:
    return orjson.dumps(value).decode()
