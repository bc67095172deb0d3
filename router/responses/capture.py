"""A sink before the caller's own that sees which response or message goes out, so that it can be stored."""

import re
from collections.abc import Sequence

import orjson

from router.contract.digits import parse_exactly
from router.contract.errors import TandemError
from router.contract.exchange import Exchange
from router.contract.facts import AttemptOpened, ResponseCompleted
from router.contract.relay import Flow, Headers, Sink
from router.contract.request import JsonObject
from router.dialects.fields import as_object, as_text
from router.dialects.sse import Frame, Lasting, Tail
from router.responses.assemble import MessageAssembler, read_whole_message

_TERMINAL = ("response.completed", "response.incomplete")
_IS_TERMINAL = re.compile(rb"response\.(?:completed|incomplete)").search
_TELLING = re.compile(rb"response\.(?:completed|incomplete|output_item\.done)")
_LASTING = Lasting(_TELLING, (b"output_item.done", b"response.completed", b"response.incomplete"))


class _Capturing:
    """Passes an answer on unchanged, and notes what its caller may continue from before its last bytes leave.

    Before, because a caller may continue in the moment it has read the last event, while the target's connection is still
    open. It sees what the caller sees, whatever the target spoke.
    """

    def __init__(self, caller: Sink, exchange: Exchange) -> None:
        self._caller, self._exchange = caller, exchange
        self._held: list[bytes] = []
        self._is_noted = False

    def feed_from(self, flow: Flow) -> None:
        self._caller.feed_from(flow)

    def start(self, status: int, headers: Headers) -> None:
        self._caller.start(status, headers)

    def fail(self, error: TandemError) -> None:
        self._caller.fail(error)

    def _note(self, response: JsonObject | None) -> None:
        opened = self._exchange.last(AttemptOpened)
        if response is not None and opened is not None and not self._is_noted:
            self._is_noted = True
            self._exchange.note(ResponseCompleted(opened.target, response))


class CapturingSink(_Capturing):
    """Captures a Responses answer."""

    def __init__(self, caller: Sink, exchange: Exchange, *, is_streaming: bool) -> None:
        super().__init__(caller, exchange)
        self._tail = Tail(_TELLING, _LASTING) if is_streaming else None
        self._is_near_end = False

    def write(self, data: bytes) -> None:
        tail = self._tail
        if tail is None:
            self._held.append(data)
        else:
            tail.add(data)
            if self._is_near_end or _IS_TERMINAL(data):
                self._is_near_end = True
                if tail.at_frame_end:
                    self._read_stream(tail)
                    self._is_near_end = False  # the words may have been part of a text
        self._caller.write(data)

    def end(self) -> None:
        if self._tail is not None:
            self._read_stream(self._tail)
        else:
            self._note(read_whole_response(b"".join(self._held)))
        self._caller.end()

    def _read_stream(self, tail: Tail) -> None:
        if not self._is_noted:
            self._note(read_response(tail.frames()))


class CapturingMessageSink(_Capturing):
    """Captures a Messages answer, which is told nowhere whole in a stream: it is put together as it passes."""

    def __init__(self, caller: Sink, exchange: Exchange, *, is_streaming: bool) -> None:
        super().__init__(caller, exchange)
        self._assembler = MessageAssembler() if is_streaming else None

    def write(self, data: bytes) -> None:
        if self._assembler is not None:
            self._note(self._assembler.add(data))
        else:
            self._held.append(data)
        self._caller.write(data)

    def end(self) -> None:
        self._note(self._assembler.finish() if self._assembler is not None else read_whole_message(b"".join(self._held)))
        self._caller.end()


def read_response(frames: Sequence[Frame]) -> JsonObject | None:
    """The response at the end of a stream, with its output; None when the output cannot be had whole.

    Some servers leave `output` empty there. The finished items come in their own events, of which the last are at hand;
    they count only when none before them is missing.
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


def read_whole_response(raw: bytes) -> JsonObject | None:
    """The response in an answer that came in one piece."""
    try:
        response = as_object(parse_exactly(raw))
    except orjson.JSONDecodeError:
        return None
    return response if as_text(response.get("id")) and isinstance(response.get("output"), list) else None
