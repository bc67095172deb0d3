"""`Composer`, which writes an answer in one dialect, and helpers for tool calls."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import orjson
from pydantic_core import from_json

from router.contract.digits import keep_large
from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.contract.words import Word
from router.dialects.client_tools import CallItem

_MAX_ID = 64
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")
CUSTOM_FIELD = "input"
"""The only field of the function that represents a free-form tool."""


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
    """Set if its calls are items of their own type."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Facts of an answer before its first token."""

    id: str
    model: str
    created: int
    sends_usage: bool = True
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    sends_envelopes: bool = True
    """Whether the caller will return hidden reasoning in its next request."""
    sends_thoughts: bool = True
    """Whether the caller asked for reasoning."""
    asked: JsonObject = field(default_factory=dict)
    """The caller's request body, for dialects whose answers repeat it."""

    def shape(self, name: str) -> Shape:
        return self.shapes.get(name) or Shape(name)


class ComposedCall(NamedTuple):
    id: str
    name: str
    arguments: str


class Composer:
    """Writes one answer: each method takes the next part and returns its frames.

    `open` comes first, `close` last. In between, text, reasoning and calls come one at a time: each closes the one before.
    `whole` returns the answer in one piece, after `close`.
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
        """Reasoning state that the target wants back, sealed so that only Tandem can open it."""
        return b""

    def begin_call(self, call_id: str, name: str) -> bytes:
        return b""

    def arguments(self, delta: str) -> bytes:
        return b""

    def end_call(self, *, is_cut: bool = False) -> bytes:
        """`is_cut`: the arguments are incomplete."""
        return b""

    def close(self, finish: Finish, usage: Usage | None) -> bytes:
        return b""

    def beat(self) -> bytes:
        """A keep-alive between events, for dialects whose clients do not accept comments."""
        return b""

    def fail(self, status: int, code: str, message: str) -> bytes:
        """End with an error instead of `close`."""
        return b""

    def whole(self) -> JsonObject:
        return {}


def write_call(composer: Composer, call: ComposedCall) -> bytes:
    return composer.begin_call(call.id, call.name) + composer.arguments(call.arguments) + composer.end_call()


def plain_id(call_id: str) -> str:
    """A call id that every dialect allows. A changed id ends in a digest, so that ids stay unique."""
    plain = _NO_ID.sub("_", call_id)
    if plain != call_id or len(plain) > _MAX_ID:
        plain = f"{plain[: _MAX_ID - 17]}_{blake2b(call_id.encode(), digest_size=8).hexdigest()}"
    return plain or "call"


def is_blank(arguments: str) -> bool:
    """Whether a call has no arguments: hosts write `""` or `null`."""
    return arguments.strip() in ("", "null")


def free_form(arguments: str) -> str:
    """The input of a free-form tool. Models write the function's JSON, or forget to and write the bare input."""
    try:
        value: Json = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return "" if is_blank(arguments) else arguments
    return _inside(value, arguments)


def cut_free_form(arguments: str) -> str:
    """The free-form input up to the cut, without the JSON around it."""
    begun = arguments.lstrip()
    return _inside(parse_cut(arguments), "") if begun.startswith(("{", '"')) else arguments


def parse_cut(arguments: str) -> Json:
    """The JSON up to the cut; None if it does not begin as JSON."""
    try:
        return keep_large(from_json(arguments, allow_partial="trailing-strings"))
    except ValueError:
        return None


def _inside(value: Json, otherwise: str) -> str:
    if not value:
        return ""
    if isinstance(value, dict):
        value = value.get(CUSTOM_FIELD, next(iter(value.values())) if len(value) == 1 else otherwise)
        if value is None:
            return ""
    return value if isinstance(value, str) else otherwise
