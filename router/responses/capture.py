"""Captures outgoing responses to store them."""

import re
from collections.abc import Sequence

import orjson

from router.contract.digits import parse_exactly
from router.contract.exchange import Exchange
from router.contract.facts import AttemptOpened, ResponseCompleted
from router.contract.request import JsonObject
from router.dialects.fields import as_object, as_text
from router.dialects.sse import Frame, Lasting, Tail

_TERMINAL = ("response.completed", "response.incomplete")
_IS_TERMINAL = re.compile(rb"response\.(?:completed|incomplete)").search
_TELLING = re.compile(rb"response\.(?:completed|incomplete|output_item\.done)")
_LASTING = Lasting(_TELLING, (b"output_item.done", b"response.completed", b"response.incomplete"))


class Capture:
    """Watches a whole answer, and notes what its caller may continue from before the last bytes leave.

    A caller may continue right after the last event, while the target's connection is still open. Sees the caller's dialect.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._pieces: list[bytes] = []
        self._is_noted = False

    def add(self, data: bytes) -> None:
        self._pieces.append(data)

    def finish(self) -> None:
        self._note(read_whole(b"".join(self._pieces)))

    def _note(self, response: JsonObject | None) -> None:
        opened = self._exchange.last(AttemptOpened)
        if response is not None and opened is not None and not self._is_noted:
            self._is_noted = True
            self._exchange.note(ResponseCompleted(opened.target, response))


class ResponseCapture(Capture):
    """Captures a Responses stream from its last event, which holds the response."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._tail = Tail(_TELLING, _LASTING, measures=False)
        self._is_near_end = False

    def add(self, data: bytes) -> None:
        tail = self._tail
        tail.add(data)
        if self._is_near_end or _IS_TERMINAL(data):
            self._is_near_end = not tail.at_frame_end  # at a frame's end: the match may have been in a text
            if not self._is_near_end:
                self.finish()

    def finish(self) -> None:
        if not self._is_noted:
            self._note(read_response(self._tail.frames()))


def capture(exchange: Exchange, *, is_streaming: bool) -> Capture:
    return ResponseCapture(exchange) if is_streaming else Capture(exchange)


def read_whole(raw: bytes) -> JsonObject | None:
    """The response in a whole answer, if it has an id to continue from."""
    try:
        answer = as_object(parse_exactly(raw))
    except orjson.JSONDecodeError:
        return None
    return answer if isinstance(answer.get("output"), list) and as_text(answer.get("id")) else None


def read_response(frames: Sequence[Frame]) -> JsonObject | None:
    """The response at the end of a stream; None if its output is incomplete.

    Some servers leave `output` empty. Finished items come in their own events, of which the last are at hand; they count only
    if none before them is missing.
    """
    last = next((frame for frame in reversed(frames) if frame.kind in _TERMINAL), None)
    response = as_object(last.json().get("response")) if last is not None else {}
    if not as_text(response.get("id")):
        return None
    if response.get("output"):
        return response
    streamed = {
        index: body.get("item")
        for frame in frames
        if frame.kind == "response.output_item.done" and isinstance(index := (body := frame.json()).get("output_index"), int)
    }
    if not streamed or sorted(streamed) != list(range(len(streamed))):
        return None
    return {**response, "output": [streamed[index] for index in sorted(streamed)]}
