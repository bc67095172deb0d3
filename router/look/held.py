"""Holds the end of an answer back, so that a text can still be added to it.

Everything before the end passes at once. Only the end of a final answer is held: the model finished it by itself, and the
client has no call to run.
"""

import asyncio
import re
from contextlib import suppress
from functools import cached_property
from itertools import pairwise

import orjson

from router.contract.errors import TandemError, TooDeep
from router.contract.relay import Flow, Headers
from router.contract.request import JsonObject
from router.contract.sinks import AnswerFact, AnswerSink
from router.contract.words import Dialect
from router.dialects.responses.logged import ends_frame, split_at_frame_end
from router.dialects.splice import replace_fields
from router.dialects.sse import FRAME_ENDS, Frame, split_frames
from router.dialects.table import SPECS
from router.dispatch.streaming import HEARTBEAT, HEARTBEAT_SECONDS

_MAX_BYTES = 8 << 20
"""Longer answers pass as they come."""
_END_SECONDS = 0.5
"""How long a target may stay connected after its last event. Then the end is sent as it is."""
_ALL = b""
_find_frame_ends = re.compile(rb"\r\n\r\n|\n\n|\r\r").finditer
_UNWRITABLE = (TooDeep, orjson.JSONEncodeError, RecursionError)


class HeldEnd:
    """Keeps the end until `release`. Meanwhile a stream is kept alive by heartbeats; a whole answer has no room for them."""

    def __init__(self, sink: AnswerSink, dialect: Dialect, *, is_streaming: bool) -> None:
        self._sink, self._dialect, self._is_streaming = sink, dialect, is_streaming
        self._closing = closing = SPECS[dialect].closing
        self._passes = closing is None
        self._mark = closing.mark if closing is not None and is_streaming else _ALL
        """Pieces with this are examined."""
        self._pass_on = sink.write
        self._head: Headers | None = None
        """The head of a whole answer: its length changes with a text."""
        self._said: list[bytes] = []
        self._open: list[bytes] = []
        """A frame that is not complete, or a whole answer: it may be the end."""
        self._before = b""
        self._room = _MAX_BYTES
        self._end = b""
        """The frame with which the end begins, or a whole answer."""
        self._rest: list[bytes] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._has_ended = False

    @property
    def is_holding(self) -> bool:
        return bool(self._end)

    @cached_property
    def text(self) -> str:
        """The words of the answer. Read once, when the end is held."""
        said, closing = b"".join([*self._said, self._end]), self._closing
        if closing is not None and self._is_streaming:
            with suppress(orjson.JSONDecodeError):  # half a character, or not UTF-8
                if found := orjson.loads(b'"%b"' % b"".join(closing.find_texts(said))):
                    return str(found)
        from router.dialects.heard import hear

        heard = hear(self._dialect, said)
        return "".join(heard.texts) if heard is not None else ""

    @property
    def is_final(self) -> bool:
        """Whether the end of an answer with text is held."""
        return self.is_holding and bool(self.text.strip())

    @property
    def has_started(self) -> bool:
        return self._sink.has_started

    def feed_from(self, flow: Flow) -> None:
        self._sink.feed_from(flow)

    def tell(self, fact: AnswerFact) -> None:
        self._sink.tell(fact)

    def start(self, status: int, headers: Headers) -> None:
        if status != 200:
            self._passes, self._mark = True, _ALL
        if self._passes or self._is_streaming:
            self._sink.start(status, headers)
        else:
            self._head = headers

    def write(self, data: bytes) -> None:
        if self._open or not data.endswith(FRAME_ENDS) or data.rfind(self._mark) >= 0:
            self._examine(data)
            return
        self._pass_on(data)
        self._said.append(data)
        self._room = room = self._room - len(data)
        if room < 0:
            self._pass_all()

    def end(self) -> None:
        self._has_ended = True
        if self._open:
            last, self._open = b"".join(self._open), []
            self._take(last)  # the last frame may lack its empty line
        if not self._end:
            self._pass_all()
            self._sink.end()

    def fail(self, error: TandemError) -> None:
        self._has_ended = False
        self._pass_all()
        self._sink.fail(error)

    def release(self, text: str | None = None) -> None:
        """Send the end, with a text before it if given. Does nothing if none is held."""
        if self._end:
            if text:
                self._add(text)
            self._pass_all()
            if self._has_ended:
                self._sink.end()

    def _examine(self, data: bytes) -> None:
        if self._passes:
            self._pass_on(data)
            return
        self._room -= len(data)
        if self._end:
            self._rest.append(data)
        else:
            self._open.append(data)
            if self._is_streaming and ends_frame(self._before, data):
                frames, rest = split_at_frame_end(b"".join(self._open))
                self._open = [rest] if rest else []
                self._take(frames)
            self._before = (self._before + data)[-3:] if self._open else b""
        if self._room < 0:
            self._pass_all()

    def _take(self, data: bytes) -> None:
        """Pass whole frames on, up to the one with which the end begins. A whole answer is its own end."""
        ends = [found.end() for found in _find_frame_ends(data)] if self._is_streaming else []
        for begin, end in pairwise(sorted({0, *ends, len(data)})):
            if (finish := self._read_finish(data[begin:end])) is None:
                continue
            self._pass_frames(data[:begin])
            self._end, self._rest, self._open = data[begin:end], [data[end:], *self._open], []
            if finish:
                self._hold()
            else:
                self._pass_all()
            return
        self._pass_frames(data)

    def _pass_frames(self, frames: bytes) -> None:
        if frames:
            self._said.append(frames)
            if self._is_streaming:
                self._pass_on(frames)

    def _read_finish(self, part: bytes) -> bool | None:
        """Whether the answer is final, by its end; None if this is not the end."""
        closing = self._closing
        if closing is None or part.rfind(self._mark) < 0:
            return None
        finish = closing.read_finish(self._parse(part))
        return finish and not any(map(closing.is_open.search, [b"".join(self._said), part]))

    def _parse(self, part: bytes) -> JsonObject:
        frames = split_frames(part) if self._is_streaming else [Frame("", part)]
        return frames[0].json() if frames else {}

    def _hold(self) -> None:
        self._mark = _ALL
        if self._is_streaming:
            self._beat_later()
            if not self._has_ended:
                self._timers.append(asyncio.get_running_loop().call_later(_END_SECONDS, self._give_up))

    def _beat_later(self) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat))

    def _beat(self) -> None:
        self._pass_on(HEARTBEAT)
        self._beat_later()

    def _give_up(self) -> None:
        if not self._has_ended:
            self._pass_all()

    def _add(self, text: str) -> None:
        closing, end = self._closing, self._end
        assert closing is not None
        try:
            if self._is_streaming:
                self._end = closing.add_to_stream(b"".join(self._said), end, text)
            else:
                body = self._parse(end)
                self._end = replace_fields(end, body, closing.add_to_whole(body, text))
        except _UNWRITABLE:
            return
        if self._head is not None:
            length = ("content-length", str(len(self._end)))
            self._head = tuple(length if name == length[0] else (name, value) for name, value in self._head)

    def _pass_all(self) -> None:
        """Send what is kept, and pass everything on from now."""
        for timer in self._timers:
            timer.cancel()
        kept = [*([] if self._is_streaming else self._said), self._end, *self._rest, *self._open]
        self._passes, self._mark = True, _ALL
        self._end, self._said, self._rest, self._open = b"", [], [], []
        if self._head is not None:
            self._sink.start(200, self._head)
            self._head = None
        if data := b"".join(kept):
            self._pass_on(data)
