"""The text of an interrupted response, from which the conversation continues."""

import msgspec
from msgspec import Struct

from router.contract.request import Json, JsonObject
from router.dialects.fields import as_object, as_text
from router.dialects.sse import Frame

_KINDS = ("response.created", "response.in_progress", "response.queued")
_BEGINS = tuple(f'{{"type":{blank}"{kind}"'.encode() for kind in _KINDS for blank in ("", " "))
_DELTA, _DONE = "response.output_text.delta", "response.output_item.done"
_TELLS = tuple(f'{{"type":{blank}"{kind}"'.encode() for kind in (_DELTA, _DONE) for blank in ("", " "))
_IS_TYPED = (b'{"type":', b'{"type": ')
_UNREAD_BYTES = 1 << 15
"""Events kept unparsed: parsing each as it comes would cost more than all else."""
_MAX_TEXT = 1 << 20
"""In characters or bytes, more than any model writes in one answer. A longer one cannot be continued."""


class _Delta(Struct, frozen=True):
    output_index: int
    delta: str
    item_id: str = ""


_READ_DELTA = msgspec.json.Decoder(_Delta)


class Said:
    """A response's messages for an interrupt, bounded. Calls are dropped: targets refuse unanswered ones."""

    __slots__ = ("_items", "_last", "_response", "_size", "_texts", "_unread", "_unread_bytes", "is_too_long")

    def __init__(self) -> None:
        self._response: JsonObject | None = None
        self._unread: list[bytes] = []
        self._unread_bytes = self._size = 0
        self._items: dict[int, JsonObject] = {}
        self._texts: dict[int, list[str]] = {}
        self._last = b""
        self.is_too_long = False
        """Over the bound: nothing is kept."""

    @property
    def response_id(self) -> str:
        """Empty before the first event."""
        return as_text(self._response.get("id")) if self._response is not None else ""

    def add(self, event: bytes) -> None:
        """Take the JSON of one event."""
        self._last = event
        if self.is_too_long:
            return
        if event.startswith(_TELLS) or not event.startswith(_IS_TYPED):
            if len(event) > _MAX_TEXT:
                self._forget()
                return
            self._unread.append(event)
            self._unread_bytes += len(event)
            if self._unread_bytes > _UNREAD_BYTES or self._response is None:
                self._read()
        elif self._response is None and event.startswith(_BEGINS):
            self._begin(Frame("", event).json())

    def so_far(self) -> JsonObject | None:
        """The response with its finished messages and the partial text of the current one; None before it began."""
        self._read()
        if self._response is None:
            return None
        output: list[Json] = [self._item(index) for index in sorted({*self._items, *self._texts})]
        return {**self._response, "output": [item for item in output if as_object(item).get("type") == "message"]}

    @property
    def last_number(self) -> int:
        number = Frame("", self._last).json().get("sequence_number")
        return number if isinstance(number, int) else 0

    def _begin(self, event: JsonObject) -> None:
        response = as_object(event.get("response"))
        if self._response is None and as_text(response.get("id")):
            self._response = response

    def _read(self) -> None:
        unread, self._unread, self._unread_bytes = self._unread, [], 0
        joined = {index: len(texts) for index, texts in self._texts.items()}
        for event in unread:
            if event.startswith(_TELLS[:2]):
                self._read_delta(event)
            else:
                self._read_other(Frame("", event))
        for index, texts in self._texts.items():  # a word of its own takes ten times its letters
            begin = joined.get(index, 0)
            texts[begin:] = ["".join(texts[begin:])]
        if self._size > _MAX_TEXT:
            self._forget()

    def _forget(self) -> None:
        self.is_too_long = True
        for held in (self._unread, self._items, self._texts):
            held.clear()

    def _read_delta(self, event: bytes) -> None:
        try:
            found = _READ_DELTA.decode(event)
        except (ValueError, RecursionError):
            return
        self._add_words(found.output_index, found.delta, found.item_id)

    def _add_words(self, index: int, words: str, item_id: str) -> None:
        if not self._texts.get(index):
            self._items.setdefault(index, {"id": item_id})
        self._texts.setdefault(index, []).append(words)
        self._size += len(words)

    def _read_other(self, frame: Frame) -> None:
        """An event whose type is not its first field, or a finished item."""
        event, kind = frame.json(), frame.kind
        self._begin(event)
        index, delta = event.get("output_index"), event.get("delta")
        if not isinstance(index, int):
            return
        if kind == _DONE:
            self._items[index] = as_object(event.get("item"))
            self._texts.pop(index, None)
            self._size += len(frame.data)
        elif kind == _DELTA and isinstance(delta, str):
            self._add_words(index, delta, as_text(event.get("item_id")))

    def _item(self, index: int) -> JsonObject:
        item, texts = self._items.get(index, {}), self._texts.get(index)
        if texts is None:
            return item
        text = "".join(texts)
        self._texts[index] = [text]
        part: JsonObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        head: JsonObject = {"type": "message", "id": as_text(item.get("id")), "role": "assistant", "status": "incomplete"}
        return {**head, "content": [part]}
