"""What every composer is told, and what it is asked for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import orjson
from pydantic_core import from_json

from router.contract.digits import as_written, keep_large
from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.contract.words import Word
from router.dialects.client_tools import CallItem

_MAX_ID = 64
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")
CUSTOM_FIELD = "input"
"""The one field of the function that stands in for a free-form tool."""


class Finish(Word):
    STOP = "stop"
    LENGTH = "length"
    TOOLS = "tools"
    FILTER = "filter"


class Shape(NamedTuple):
    """How the caller knows a tool that the target sees as a plain function."""

    name: str
    namespace: str | None = None
    is_custom: bool = False
    item: CallItem | None = None
    """How its calls are written, where they are items of a type of their own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of an answer before its first word."""

    id: str
    model: str
    created: int
    sends_usage: bool = True
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    sends_envelopes: bool = True
    """Whether hidden reasoning is wanted back, to be returned in the next request."""
    sends_thoughts: bool = True
    """Whether reasoning is wanted at all, by a dialect whose callers ask for it."""
    asked: JsonObject = field(default_factory=dict)
    """The request's body as its caller sent it, for a dialect whose answers repeat it."""

    def shape(self, name: str) -> Shape:
        return self.shapes.get(name) or Shape(name)


class ComposedCall(NamedTuple):
    id: str
    name: str
    arguments: str


class Composer:
    """One answer under way. Each method takes the next thing and returns the frames to send for it; here, none.

    `open` comes first, `close` last. Between them text, reasoning and calls come in any order, but one after another: what
    was open is closed when the next begins. `whole` gives the answer in one piece, after `close`.
    """

    def open(self) -> bytes:
        return b""

    def text(self, delta: str) -> bytes:
        return b""

    def refusal(self, delta: str) -> bytes:
        return b""

    def reasoning(self, delta: str) -> bytes:
        return b""

    def envelope(self, envelope: str) -> bytes:
        """What the target wants back of the reasoning that just ended, in a form that only we open."""
        return b""

    def begin_call(self, call_id: str, name: str) -> bytes:
        return b""

    def arguments(self, delta: str) -> bytes:
        return b""

    def end_call(self, *, is_cut: bool = False) -> bytes:
        """End the call. Cut means that its arguments are not whole: the answer reached its limit, or was stopped."""
        return b""

    def close(self, finish: Finish, usage: Usage | None) -> bytes:
        return b""

    def beat(self) -> bytes:
        """A sign of life between two events, where clients of this dialect do not accept a comment as one."""
        return b""

    def fail(self, status: int, code: str, message: str) -> bytes:
        """Instead of `close`: the answer ends here, with an error."""
        return b""

    def whole(self) -> JsonObject:
        return {}


def write_call(composer: Composer, call: ComposedCall) -> bytes:
    return composer.begin_call(call.id, call.name) + composer.arguments(call.arguments) + composer.end_call()


def plain_id(call_id: str) -> str:
    """A call's id as every dialect allows it. One that must change ends in a digest, so that no two become one."""
    plain = _NO_ID.sub("_", call_id)
    if plain != call_id or len(plain) > _MAX_ID:
        plain = f"{plain[: _MAX_ID - 17]}_{blake2b(call_id.encode(), digest_size=8).hexdigest()}"
    return plain or "call"


def is_blank(arguments: str) -> bool:
    """Whether a call has no arguments, which hosts write in several ways."""
    return arguments.strip() in ("", "null")


def data_frame(body: JsonObject) -> bytes:
    return b"data: " + orjson.dumps(body, default=as_written) + b"\n\n"


def named_frame(kind: str, body: JsonObject) -> bytes:
    """A frame with its name on a line of its own."""
    return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(body, default=as_written) + b"\n\n"


def free_form(arguments: str) -> str:
    """The input of a free-form tool. Models that were given a function write JSON, or forget to and write the input itself."""
    try:
        value: Json = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return "" if is_blank(arguments) else arguments
    return _inside(value, arguments)


def cut_free_form(arguments: str) -> str:
    """As much of a free-form tool's input as had come when it was cut, without the JSON around it."""
    begun = arguments.lstrip()
    return _inside(parse_cut(arguments), "") if begun.startswith(("{", '"')) else arguments


def parse_cut(arguments: str) -> Json:
    """As much of some JSON as had come when it was cut; None where it does not begin as JSON."""
    try:
        return keep_large(from_json(arguments, allow_partial="trailing-strings"))
    except ValueError:
        return None


def _inside(value: Json, otherwise: str) -> str:
    """The text in a value that wraps it: under the field's own name, or under the only one."""
    if not value:
        return ""
    if isinstance(value, dict):
        value = value.get(CUSTOM_FIELD, next(iter(value.values())) if len(value) == 1 else otherwise)
        if value is None:
            return ""
    return value if isinstance(value, str) else otherwise
