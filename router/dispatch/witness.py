"""Sinks that stand between the relay and the caller: one that sees what response went out, one that holds an answer back."""

from collections.abc import Callable

from router.contract.errors import TandemError
from router.contract.relay import Flow, Headers, Sink
from router.contract.request import JsonObject
from router.dialects.sse import Tail
from router.dialects.transcripts import read_response, read_whole_response

_TERMINAL_MARKS = (b"response.completed", b"response.incomplete")


class Witness:
    """Passes a Responses answer on unchanged, and tells of the finished response before its last bytes leave.

    Before, because a caller may go on from a response in the moment it has read its last event, while the target's
    connection is still open. It sees what the caller sees, whatever the target spoke.
    """

    def __init__(self, client: Sink, *, is_streaming: bool, tell: Callable[[JsonObject], None]) -> None:
        self._client, self._tell = client, tell
        self._tail = Tail() if is_streaming else None
        self._held: list[bytes] = []
        self._is_near_end = self._has_told = False

    def feed_from(self, flow: Flow) -> None:
        self._client.feed_from(flow)

    def start(self, status: int, headers: Headers) -> None:
        self._client.start(status, headers)

    def write(self, data: bytes) -> None:
        tail = self._tail
        if tail is None:
            self._held.append(data)
        else:
            tail.add(data)
            if self._is_near_end or any(mark in data for mark in _TERMINAL_MARKS):
                self._is_near_end = True
                if tail.at_frame_end:
                    self._read_stream(tail)
                    self._is_near_end = False  # the words may have stood in a text
        self._client.write(data)

    def end(self) -> None:
        if self._tail is not None:
            self._read_stream(self._tail)
        else:
            self._note(read_whole_response(b"".join(self._held)))
        self._client.end()

    def fail(self, error: TandemError) -> None:
        self._client.fail(error)

    def _read_stream(self, tail: Tail) -> None:
        if not self._has_told:
            self._note(read_response(tail.frames()))

    def _note(self, response: JsonObject | None) -> None:
        if response is not None and not self._has_told:
            self._has_told = True
            self._tell(response)


class HeldAnswer:
    """Takes a whole answer and sends nothing on: what becomes of it is decided by who asked."""

    def __init__(self, client: Sink) -> None:
        self._client = client
        self._pieces: list[bytes] = []
        self.headers: Headers = ()

    def feed_from(self, flow: Flow) -> None:
        """Nobody reads slowly here: what is held is bounded by the relay, which itself holds whole answers."""

    def start(self, status: int, headers: Headers) -> None:
        self.headers = tuple((name, value) for name, value in headers if name != "content-length")

    def write(self, data: bytes) -> None:
        self._pieces.append(data)

    def end(self) -> None:
        """The answer waits to be taken."""

    def fail(self, error: TandemError) -> None:
        self._client.fail(error)

    @property
    def body(self) -> bytes:
        return b"".join(self._pieces)


def answer_whole(sink: Sink, headers: Headers, body: bytes) -> None:
    """Send an answer of our own making."""
    sink.start(200, (*headers, ("content-length", str(len(body)))))
    sink.write(body)
    sink.end()
