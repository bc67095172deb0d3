"""What a request must send on a socket: only what is new, or everything.

Targets keep a socket's last response in memory. A request that repeats its input and output and adds to them needs only the new
items and that response's id.
"""

from collections.abc import Iterable
from hashlib import blake2b

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contract.relay import Headers
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object
from router.dialects.splice import replace_fields
from router.dialects.transports import mark_in_message

_INPUT, _PREVIOUS = "input", "previous_response_id"
_ON_A_SOCKET: JsonObject = {"type": "response.create", "stream": None, "background": None}
"""Differences from HTTP: always streamed, never in the background."""
_NOT_COMPARED = frozenset({*_ON_A_SOCKET, _INPUT, _PREVIOUS, "stream_options", "client_metadata"})
_NOT_SAID_BACK = frozenset({"id", "status", "annotations", "logprobs"})
"""Fields without meaning to the model, which clients may omit when they return an item."""


class Baseline(Struct, frozen=True):
    """Input and output of a socket's last response, without the input's text."""

    response_id: str
    fields_mark: bytes
    given: int
    given_mark: bytes
    answered: tuple[Json, ...]
    """Without the fields that clients may omit."""


class Ask(Struct, frozen=True):
    raw: bytes
    body: JsonObject
    items: list[Json] | None = None
    """The input as items; None if it cannot be continued from."""
    fields_mark: bytes = b""
    items_mark: bytes = b""
    is_unfit: bool = False
    """Whether it cannot be rewritten: nested too deeply, or with an invalid number."""
    known: int = 0
    """Leading items that the target already has."""
    previous: str = ""
    marks: JsonObject = {}
    """Fields that say what headers say over HTTP."""

    @property
    def is_streaming(self) -> bool:
        return self.body.get("stream") is True

    @property
    def may_go(self) -> bool:
        return not self.is_unfit and not self.body.get("background")

    @property
    def is_increment(self) -> bool:
        return self.known > 0

    def increment(self) -> bytes:
        assert self.items is not None
        return self._write({_INPUT: self.items[self.known :], _PREVIOUS: self.previous})

    def whole(self) -> bytes:
        return self._write({})

    def _write(self, changes: JsonObject) -> bytes:
        return replace_fields(self.raw, self.body, {**_ON_A_SOCKET, **self.marks, **changes})

    def remember(self, response_id: str, answered: Iterable[Json]) -> Baseline | None:
        if self.items is None or not response_id:
            return None
        said = tuple(_plain(item) for item in answered)
        return Baseline(response_id, self.fields_mark, len(self.items), self.items_mark, said)


def read_ask(raw: bytes, baseline: Baseline | None) -> Ask:
    try:
        return _read(raw, as_object(orjson.loads(raw)), baseline)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return Ask(raw, {}, is_unfit=True)


def read_message(raw: bytes, baseline: Baseline | None, headers: Headers = ()) -> tuple[Ask, bytes]:
    """Empty bytes if it must not go over a socket."""
    ask = read_ask(raw, baseline)
    if marks := mark_in_message(headers, ask.body):
        ask = replace(ask, marks=marks)
    return ask, (ask.increment() if ask.is_increment else ask.whole()) if ask.may_go else b""


def _read(raw: bytes, body: JsonObject, baseline: Baseline | None) -> Ask:
    fields, items = _mark({name: value for name, value in body.items() if name not in _NOT_COMPARED}), body.get(_INPUT)
    if not isinstance(items, list) or body.get(_PREVIOUS):
        return Ask(raw, body)
    ask = Ask(raw, body, items, fields, _mark(items))
    if baseline is None or baseline.fields_mark != fields or not _extends(items, baseline):
        return ask
    return replace(ask, known=baseline.given + len(baseline.answered), previous=baseline.response_id)


def _extends(items: list[Json], baseline: Baseline) -> bool:
    """Whether items begin with the baseline's input and output, and continue."""
    end = baseline.given + len(baseline.answered)
    return (
        len(items) > end
        and tuple(_plain(item) for item in items[baseline.given : end]) == baseline.answered
        and _mark(items[: baseline.given]) == baseline.given_mark
    )


def _mark(value: Json) -> bytes:
    return blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def _plain(value: Json) -> Json:
    """An item without the fields that clients may omit, and with text content as parts."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if not isinstance(value, dict):
        return value
    plain: JsonObject = {
        name: _plain(part) for name, part in value.items() if name not in _NOT_SAID_BACK and part not in (None, [])
    }
    if plain.get("role") == "assistant" and plain.setdefault("type", "message") == "message":
        content = plain.get("content")
        plain["content"] = [{"type": "output_text", "text": content}] if isinstance(content, str) else as_list(content)
    return plain
