"""A Messages answer as one message, from a whole body or a stream of events."""

import orjson
from msgspec import Struct

from router.contract.digits import parse_exactly
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.translate.frames import FrameSplitter

_TEXT_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}
"""Text deltas, with their field in both block and delta."""


_MAX_BYTES = 32 << 20
"""A longer stream is not assembled: it may be endless. 128,000 tokens make about 20 MB of events."""


class _Block(Struct):
    begun: JsonObject
    texts: dict[str, list[str]]
    arguments: list[str]
    citations: list[Json]

    def add(self, delta: JsonObject) -> None:
        """Raises ValueError for an unknown kind, without which the block would be wrong."""
        kind = as_text(delta.get("type"))
        if kind in _TEXT_DELTAS:
            field = _TEXT_DELTAS[kind]
            self.texts.setdefault(field, []).append(as_text(delta.get(field)))
        elif kind == "input_json_delta":
            self.arguments.append(as_text(delta.get("partial_json")))
        elif kind == "citations_delta":
            self.citations.append(delta.get("citation"))
        else:
            raise ValueError("an unknown delta")

    def whole(self) -> JsonObject:
        """The finished block. Raises ValueError for arguments that are not JSON."""
        block = {**self.begun, **{field: as_text(self.begun.get(field)) + "".join(said) for field, said in self.texts.items()}}
        if written := "".join(self.arguments):
            block["input"] = parse_exactly(written.encode())
        if self.citations:
            block["citations"] = as_list(self.begun.get("citations")) + self.citations
        return block


class MessageAssembler:
    """Reads a stream as it passes. A message that cannot be assembled exactly is dropped, so it cannot be continued."""

    def __init__(self) -> None:
        self._frames = FrameSplitter()
        self._message: JsonObject = {}
        self._blocks: dict[int, _Block] = {}
        self._room = _MAX_BYTES
        self._is_over = False

    def add(self, data: bytes) -> JsonObject | None:
        """Returns the message with the piece that ends it."""
        if self._is_over:
            return None
        found: JsonObject | None = None
        self._room -= len(data)
        try:
            if self._room < 0:
                raise ValueError("a stream without end")
            for frame in self._frames.feed(data):
                found = self._read(as_object(parse_exactly(frame))) or found
        except ValueError:  # from us or the JSON parser
            self._is_over = True
            self._blocks.clear()
            return None
        return found

    def finish(self) -> JsonObject | None:
        """End of the stream. The last event may lack its empty line."""
        return self.add(b"\n\n")

    def _read(self, event: JsonObject) -> JsonObject | None:
        match event.get("type"):
            case "message_start":
                self._message = as_object(event.get("message"))
            case "content_block_start":
                self._blocks[_index(event)] = _Block(as_object(event.get("content_block")), {}, [], [])
            case "content_block_delta":
                block = self._blocks.get(_index(event))
                if block is None:
                    raise ValueError("a delta without its block")
                block.add(as_object(event.get("delta")))
            case "message_stop":
                self._is_over = True
                content: list[Json] = [block.whole() for _, block in sorted(self._blocks.items())]
                return _named({**self._message, "content": content})
        return None


def _index(event: JsonObject) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise ValueError("a block without its index")
    return index


def read_whole(raw: bytes, field: str) -> JsonObject | None:
    """The message or response in a whole answer; `field` holds its content list."""
    try:
        answer = as_object(parse_exactly(raw))
    except orjson.JSONDecodeError:
        return None
    return _named(answer) if isinstance(answer.get(field), list) else None


def _named(message: JsonObject) -> JsonObject | None:
    """The message, if it has an id to continue from."""
    return message if as_text(message.get("id")) else None
