"""A request between two dialects.

A reader fills the draft, a writer turns it into a body. What the writer's dialect cannot express is noted as dropped, or
refused if the request would then mean something else.
"""

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from router.contract.errors import BadRequest, Misfit
from router.contract.request import Json, JsonObject
from router.dialects.client_tools import CallItem
from router.dialects.composer import CUSTOM_FIELD, Shape, is_blank
from router.dialects.translate import expect

DEFAULT_SCHEMA_NAME = "answer"
"""Schema name for dialects that require one, if the caller gave none."""
_MAX_NAME = 64
"""The shortest limit of all dialects."""
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


Mark = JsonObject | None
"""A `cache_control` as the caller wrote it: asks to cache the prompt up to here."""


class Text(NamedTuple):
    text: str
    mark: Mark = None


class Image(NamedTuple):
    """An image, by address or `data:` URL."""

    url: str
    detail: str | None = None
    mark: Mark = None


class File(NamedTuple):
    """A document, by its bytes (a `data:` URL), address, or host-specific id."""

    name: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    mark: Mark = None


Part = Text | Image | File


class DraftText(NamedTuple):
    role: str
    parts: tuple[Part, ...]


class DraftCall(NamedTuple):
    """`arguments` is JSON, also for a free-form tool."""

    call_id: str
    name: str
    arguments: str
    mark: Mark = None


class DraftResult(NamedTuple):
    call_id: str
    parts: tuple[Part, ...]
    is_error: bool = False
    mark: Mark = None


class DraftReasoning(NamedTuple):
    """Reasoning that a target wants back, wrapped on its way to the caller."""

    envelope: str


Line = DraftText | DraftCall | DraftResult | DraftReasoning


class Tool(NamedTuple):
    """A function under the name that the target sees."""

    name: str
    description: str
    schema: JsonObject
    is_strict: bool | None = None
    mark: Mark = None


class Choice(NamedTuple):
    """auto, none, any, or one by name."""

    mode: str
    name: str | None = None


class Schema(NamedTuple):
    """The JSON that an answer must be; without `schema`, any object."""

    schema: JsonObject | None
    name: str | None = None
    is_strict: bool | None = None
    description: str | None = None


class ToolNames:
    """Unique tool names of one request, within the limits of every host.

    Names that fit stay. Others derive from the tool alone, so that prompts keep equal beginnings.
    """

    __slots__ = ("_owners", "_seen")

    def __init__(self) -> None:
        self._seen: dict[tuple[str | None, str], str] = {}
        self._owners: set[str] = set()

    def seen(self, name: str, namespace: str | None = None) -> str:
        tool = (namespace or None, name)
        found = self._seen.get(tool)
        if found is None:
            found = self._seen[tool] = self._make(tool)
            self._owners.add(found)
        return found

    def _make(self, tool: tuple[str | None, str]) -> str:
        namespace, name = tool
        given = f"{namespace}__{name}" if namespace else name
        plain = _NO_NAME.sub("_", given)
        if plain == given and len(plain) <= _MAX_NAME and plain not in self._owners:
            return plain
        digest = blake2b(f"{namespace or ''}\0{name}".encode("utf-8", "replace")).hexdigest()
        # A caller may have chosen our name: use more of the digest.
        sizes = range(8, _MAX_NAME)
        made = (f"{plain[: _MAX_NAME - size - 1]}_{digest[:size]}" for size in sizes)
        return next(candidate for candidate in made if candidate not in self._owners)


@dataclass(slots=True)
class Draft:
    """Fields that are None were not sent."""

    system: list[str] = field(default_factory=list)
    system_marks: dict[int, Mark] = field(default_factory=dict)
    """By index in `system`."""
    lines: list[Line] = field(default_factory=list)
    tools: dict[str, Tool] = field(default_factory=dict)
    names: ToolNames = field(default_factory=ToolNames)
    shapes: dict[str, Shape] = field(default_factory=dict)
    choice: Choice | None = None
    parallel: bool | None = None
    schema: Schema | None = None
    max_tokens: int | None = None
    stop: list[str] = field(default_factory=list)
    temperature: float | None = None
    top_p: float | None = None
    effort: str | None = None
    wants_summary: bool = False
    verbosity: str | None = None
    metadata: JsonObject | None = None
    user: str | None = None
    cache_key: str | None = None
    service_tier: str | None = None
    is_streaming: bool = False
    wants_envelopes: bool = False
    wants_thoughts: bool = True
    end_mark: Mark = None
    """For the end of the prompt, wherever that is."""
    marks_itself: bool = False
    """Whether the caller controls caching, so that no mark is added."""
    dropped: dict[str, None] = field(default_factory=dict)
    lost_parts: int = 0
    """Parts of messages of a type that only the caller's dialect knows."""

    def drop(self, *names: str) -> None:
        self.dropped.update(dict.fromkeys(names))

    def read_mark(self, block: JsonObject) -> Mark:
        """A cache mark as Messages and some chat clients write it."""
        mark = expect.mapping(block, "cache_control")
        if not mark:
            return None
        self.marks_itself = True
        return mark

    def read_sampling(self, body: JsonObject) -> None:
        self.is_streaming = body.get("stream") is True
        for name in ("temperature", "top_p"):
            value = body.get(name)
            if isinstance(value, (int, float)):
                setattr(self, name, value)

    def drop_unread(self, body: JsonObject, read: frozenset[str]) -> None:
        """Note unread fields of a body. Empty objects count: they may switch something on."""
        self.drop(*(name[:60] for name, value in body.items() if name not in read and value not in (None, [], "")))

    def drop_unread_of(self, what: str, body: JsonObject, read: frozenset[str]) -> None:
        if not body.keys() <= read:
            self.drop(*(f"{name[:40]} of {what}" for name in _unread(body, read)))

    def name_tool(self, name: str, namespace: str | None = None) -> str:
        """The target's name for a caller's tool. If it differs, calls are mapped back."""
        seen = self.names.seen(name, namespace)
        if seen != name:
            self.shapes.setdefault(seen, Shape(name, namespace))
        return seen

    def add_tool(
        self, tool: Tool, namespace: str | None = None, *, is_custom: bool = False, item: CallItem | None = None
    ) -> None:
        """Offer a tool under the caller's name; of two with one name, the last wins."""
        seen = self.name_tool(tool.name, namespace)
        if seen in self.tools:
            self.drop(f"the first of two tools named {tool.name[:64]}")
        self.tools[seen] = tool._replace(name=seen)
        self.shapes.pop(seen, None)
        if is_custom or item is not None or seen != tool.name:
            self.shapes[seen] = Shape(tool.name, namespace, is_custom, item)

    def choose(self, mode: str, name: str | None = None) -> None:
        if mode not in ("auto", "none", "any", "one") or (mode == "one" and not name):
            raise BadRequest(f'tool_choice: unknown value "{mode[:40]}"', param="tool_choice")
        if mode == "one" and name not in self.tools:
            message = f'tool_choice: the tool "{str(name)[:60]}" cannot be passed to a target that speaks another dialect'
            raise Misfit(message, param="tool_choice")
        if mode == "any" and not self.tools:
            message = "tool_choice: a tool call is required, but no tool can be passed to a target that speaks another dialect"
            raise Misfit(message, param="tool_choice")
        self.choice = Choice(mode, name if mode == "one" else None)

    def keep_tools(self, names: Iterable[str]) -> None:
        """Offer only these: emulates an allow-list."""
        allowed = set(names)
        self.tools = {name: tool for name, tool in self.tools.items() if name in allowed}

    def add_system(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if isinstance(part, Text):
                if part.mark is not None:
                    self.system_marks[len(self.system)] = part.mark
                self.system.append(part.text)
            else:
                self.drop("images and files in system messages")

    def spoken(self, parts: Iterable[Part], role: str) -> tuple[Text, ...]:
        kept = list(parts)
        words = tuple(part for part in kept if isinstance(part, Text))
        if len(words) < len(kept):
            self.drop(f"images and files in {role} messages")
        return words

    def add_image(self, parts: list[Part], where: str, url: str, detail: str | None = None) -> None:
        if not url:
            raise cannot_carry("an image by id", where)
        parts.append(Image(url.replace("data:image/jpg;", "data:image/jpeg;", 1), detail))

    def add_file(self, parts: list[Part], where: str, file: File) -> None:
        """Add a document that other hosts can read; plain text becomes text."""
        name, data, url = file[:3]
        if data and not data.startswith("data:"):
            data = f"data:application/pdf;base64,{data}"
        text = _text_inside(data) if data else None
        if text is not None:
            parts.append(Text(f"{name}:\n{text}" if name else text))
        elif data or url:
            parts.append(File(name, data, url))
        else:
            raise cannot_carry("a file by id", where)

    def drop_part(self, kind: str, where: str) -> None:
        """Note a part of unknown type. Refuse one that a person attached."""
        if kind in ATTACHMENTS:
            raise cannot_carry(ATTACHMENTS[kind], where)
        self.lost_parts += 1
        self.drop(f"parts of type {kind[:40]}")

    def check_said(self, parts: tuple[Part, ...], lost_before: int, where: str) -> None:
        """Refuse a message that lost all its parts: it would be answered as if empty."""
        if not parts and self.lost_parts > lost_before:
            raise cannot_carry("a message whose parts are all of unknown types", where)

    def settle(self) -> None:
        """Make the last system text the user's if there is no message: every target wants one."""
        if not self.lines:
            self.lines.append(DraftText("user", (Text(self.system.pop() if self.system else ""),)))

    def check_pairs(self) -> None:
        """Refuse results without a call, which no target accepts."""
        calls: set[str] = set()
        for line in self.lines:
            if isinstance(line, DraftCall):
                calls.add(line.call_id)
            elif isinstance(line, DraftResult) and line.call_id not in calls:
                call = line.call_id[:60]
                raise BadRequest(f'the result of tool call "{call}" has no matching call. Send the call before it')


def mark_last(parts: list[Part], before: int, mark: Mark) -> None:
    if mark is not None and len(parts) > before:
        parts[-1] = parts[-1]._replace(mark=mark)


def last_mark(parts: Iterable[Part]) -> Mark:
    """The last mark, for a place that can have only one."""
    return next((part.mark for part in reversed(tuple(parts)) if part.mark is not None), None)


ATTACHMENTS = {"input_audio": "audio", "container_upload": "a file by id"}
"""Parts that a person attaches and no other dialect can express."""


def cannot_carry(what: str, where: str | None = None) -> Misfit:
    """The refusal of what only a target of the caller's dialect can read."""
    path = f"{where}: " if where else ""
    return Misfit(f"{path}{what} cannot be passed to a target that speaks another dialect", param=where)


def custom_tool(name: str, description: str, form: Json) -> Tool:
    """A function with one text field for a free-form tool, with the grammar in its description."""
    definition = form.get("definition") if isinstance(form, dict) else None
    if isinstance(definition, str) and definition:
        description = f"{description}\n\n`{CUSTOM_FIELD}` must follow this grammar:\n{definition}".strip()
    schema: JsonObject = {
        "type": "object",
        "properties": {CUSTOM_FIELD: {"type": "string", "description": "The tool's whole input, as plain text."}},
        "required": [CUSTOM_FIELD],
        "additionalProperties": False,
    }
    return Tool(name, description, schema)


def given_arguments(arguments: str) -> str:
    return "{}" if is_blank(arguments) else arguments


def _unread(body: JsonObject, read: frozenset[str]) -> list[str]:
    return [name for name, value in body.items() if name not in read and value not in (None, [], {}, "")]


def split_data_url(url: str) -> tuple[str, str] | None:
    if not url.startswith("data:"):
        return None
    head, _, data = url[5:].partition(",")
    media_type, _, coding = head.partition(";")
    return (media_type or "application/octet-stream", data) if coding.endswith("base64") else None


def _text_inside(url: str) -> str | None:
    inside = split_data_url(url)
    if inside is None or not inside[0].startswith("text/"):
        return None
    try:
        return base64.b64decode(inside[1]).decode()
    except ValueError:
        return None


def texts(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))
