"""What a request must say on a socket whose target remembers its last response: only what is new, or everything.

Pure: bytes in, bytes out. A target keeps the last response of each socket in memory. Where a request says the same as then,
plus what was answered, plus something new, the new items and the id of that response are enough.
"""

from collections.abc import Iterable
from hashlib import blake2b

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object
from router.dialects.splice import replace_fields

_INPUT, _PREVIOUS = "input", "previous_response_id"
_ON_A_SOCKET: JsonObject = {"type": "response.create", "stream": None, "background": None}
"""Fields that differ from HTTP: every answer is a stream, and none is in the background."""
_NOT_COMPARED = frozenset({*_ON_A_SOCKET, _INPUT, _PREVIOUS, "stream_options", "client_metadata"})
"""What may differ between a request and the one that it goes on from."""
_NOT_SAID_BACK = frozenset({"id", "status", "annotations", "logprobs"})
"""What a client may leave out of an item that it was answered, when it sends the item back: it says nothing to the model."""


class Baseline(Struct, frozen=True):
    """What a socket's last response was given and what it answered, as far as it must be known again. Holds no given text."""

    response_id: str
    fields_mark: bytes
    given: int
    given_mark: bytes
    answered: tuple[Json, ...]
    """An answer, without what a client may leave out."""


class Ask(Struct, frozen=True):
    """A request, read for a socket."""

    raw: bytes
    body: JsonObject
    items: list[Json] | None = None
    """Its input as items; None where it has none that could be gone on from."""
    fields_mark: bytes = b""
    items_mark: bytes = b""
    is_unfit: bool = False
    """Whether it cannot be written again: it is nested too deeply, or has a number that is none."""
    known: int = 0
    """How many of its items the socket's target has already."""
    previous: str = ""
    """The response in which it has them."""

    @property
    def is_streaming(self) -> bool:
        """Whether its caller wants events, or the response alone."""
        return self.body.get("stream") is True

    @property
    def may_go(self) -> bool:
        """Whether it may go over a socket at all."""
        return not self.is_unfit and not self.body.get("background")

    @property
    def is_increment(self) -> bool:
        """Whether it is enough to say what is new."""
        return self.known > 0

    def increment(self) -> bytes:
        """The message with what is new."""
        assert self.items is not None
        return self._write({_INPUT: self.items[self.known :], _PREVIOUS: self.previous})

    def whole(self) -> bytes:
        """The message with everything."""
        return self._write({})

    def _write(self, changes: JsonObject) -> bytes:
        return replace_fields(self.raw, self.body, {**_ON_A_SOCKET, **changes})

    def remember(self, response_id: str, answered: Iterable[Json]) -> Baseline | None:
        """What the next request may go on from, once this one was answered. None where that cannot be told."""
        if self.items is None or not response_id:
            return None
        said = tuple(_plain(item) for item in answered)
        return Baseline(response_id, self.fields_mark, len(self.items), self.items_mark, said)


def read_ask(raw: bytes, baseline: Baseline | None) -> Ask:
    """Read a body, and find how much of it a socket's target knows."""
    try:
        return _read(raw, as_object(orjson.loads(raw)), baseline)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return Ask(raw, {}, is_unfit=True)


def read_message(raw: bytes, baseline: Baseline | None) -> tuple[Ask, bytes]:
    """The same, with the message to send: what is new, where the target has the rest. Empty for what must not go."""
    ask = read_ask(raw, baseline)
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
    """Whether items begin with all that was given and answered, and go on after it."""
    end = baseline.given + len(baseline.answered)
    return (
        len(items) > end
        and tuple(_plain(item) for item in items[baseline.given : end]) == baseline.answered
        and _mark(items[: baseline.given]) == baseline.given_mark
    )


def _mark(value: Json) -> bytes:
    return blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def _plain(value: Json) -> Json:
    """An item without what a client may leave out of it, and a text as the list of parts that it stands for."""
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
