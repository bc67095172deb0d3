"""How an answer reaches its caller: directly, captured, with the response that it continues, or held back and compacted."""

from contextlib import suppress

import orjson
from msgspec import Struct

from router.contract.digits import parse_exactly
from router.contract.errors import TandemError, TooDeep
from router.contract.exchange import Exchange
from router.contract.facts import AttemptOpened, Ending
from router.contract.relay import Flow, Headers
from router.contract.request import RequestView
from router.contract.sinks import AnswerFact, AnswerSink, Collected, send_whole, watch
from router.contract.words import Operation, Outcome
from router.dialects.fields import as_object, as_text
from router.dialects.responses.logged import RESPONSE_KEY, ends_frame, split_at_frame_end
from router.dialects.splice import replace_fields
from router.dialects.sse import named_frame, split_frames
from router.dialects.table import SPECS
from router.responses.capture import capture
from router.responses.compact import write_compaction
from router.responses.keep import is_kept, write_ahead
from router.responses.resume import PREVIOUS


class Reply(Struct):
    """`sink` takes the target's answer; `finish` is called after it."""

    sink: AnswerSink

    def finish(self, ending: Ending) -> Ending:
        return ending


class _Compaction(Reply):
    """Holds the summary back and sends the compaction made from it."""

    sink: Collected
    caller: AnswerSink
    exchange: Exchange
    view: RequestView

    def finish(self, ending: Ending) -> Ending:
        if ending.outcome is Outcome.SERVED:
            opened = self.exchange.last(AttemptOpened)
            body = write_compaction(self.view, bytes(self.sink.body), opened.target.name if opened else "")
            send_whole(self.caller, tuple(header for header in self.sink.headers if header[0] != "content-length"), body)
        return ending


class NamedSink:
    """Names the continued response, for targets that were sent its conversation instead of its id."""

    def __init__(self, caller: AnswerSink, previous: str, *, is_streaming: bool) -> None:
        self._caller, self._previous, self._is_streaming = caller, previous, is_streaming
        self._head: Headers | None = None
        self._pieces: list[bytes] = []
        self._before = b""

    @property
    def has_started(self) -> bool:
        return self._caller.has_started

    def feed_from(self, flow: Flow) -> None:
        self._caller.feed_from(flow)

    def tell(self, fact: AnswerFact) -> None:
        self._caller.tell(fact)

    def start(self, status: int, headers: Headers) -> None:
        if self._is_streaming or status != 200:
            self._caller.start(status, headers)
        else:
            self._head = tuple(header for header in headers if header[0] != "content-length")

    def write(self, data: bytes) -> None:
        self._pieces.append(data)
        if self._is_streaming and ends_frame(self._before, data):
            whole, rest = split_at_frame_end(b"".join(self._pieces))
            self._pieces = [rest] if rest else []
            self._caller.write(name_in_stream(whole, self._previous))
        self._before = (self._before + data)[-3:]

    def end(self) -> None:
        if self._head is not None:
            send_whole(self._caller, self._head, name_in_answer(b"".join(self._pieces), self._previous))
        else:
            self._flush()
            self._caller.end()

    def fail(self, error: TandemError) -> None:
        self._flush()
        self._caller.fail(error)

    def _flush(self) -> None:
        if self._pieces:
            self._caller.write(b"".join(self._pieces))


def name_in_answer(body: bytes, previous: str) -> bytes:
    """The answer, unchanged if it names the response, or is nested too deeply to be written again."""
    response = as_object(parse_exactly(body))
    with suppress(TooDeep):
        return body if response.get(PREVIOUS) == previous else replace_fields(body, response, {PREVIOUS: previous})
    return body


def name_in_stream(frames: bytes, previous: str) -> bytes:
    """Frames, of which those with a response name the previous one."""
    if RESPONSE_KEY not in frames:
        return frames
    blocks = frames.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")
    return b"\n\n".join(_name_in_frame(block, previous) if RESPONSE_KEY in block else block for block in blocks)


def _name_in_frame(block: bytes, previous: str) -> bytes:
    frame = split_frames(block)[0]
    body = frame.json() if frame.kind.startswith("response.") else {}
    response = as_object(body.get("response"))
    if not response or response.get(PREVIOUS) == previous:
        return block
    with suppress(orjson.JSONEncodeError):
        return named_frame(frame.kind, {**body, "response": {**response, PREVIOUS: previous}}).removesuffix(b"\n\n")
    return block


def reply_to(exchange: Exchange, view: RequestView, caller: AnswerSink) -> Reply:
    """Choose the way of an answer; `router.contract.sinks` lists the sinks and their order."""
    if not SPECS[view.dialect].continues_responses:
        return Reply(caller)
    if exchange.arrival.operation is Operation.COMPACT:
        return _Compaction(Collected(), caller, exchange, view)
    sink = caller
    if is_kept(view, on_socket=exchange.arrival.responses is not None):
        write_ahead(exchange, view)
        sink = watch(caller, capture(exchange, is_streaming=view.is_streaming))
    if view.continued is not None and (previous := as_text(view.continued.body.get(PREVIOUS))):
        sink = NamedSink(sink, previous, is_streaming=view.is_streaming)
    return Reply(sink)
