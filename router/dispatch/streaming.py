"""A streamed answer under way. In silence the caller gets heartbeats, and a target that stays silent is given up."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from router.contract.clock import CLOCK
from router.contract.errors import TandemError, UpstreamCut, UpstreamRefused, UpstreamTimeout
from router.contract.facts import AttemptOpened, FirstToken
from router.contract.relay import Flow, Sink
from router.contract.request import RequestView
from router.contract.sinks import Collected
from router.contract.target import Target
from router.contract.usage import Timings, Usage
from router.dialects.answers import FIRST_TOKEN_MARKS
from router.dialects.refusals import failure_event
from router.dialects.sse import StreamEnd, Tail
from router.dialects.table import SPECS
from router.dialects.unasked import USAGE_MARK, is_usage_alone, usage_may_begin, without_usage
from router.dispatch.context import DispatchContext
from router.dispatch.keys import NO_KEY
from router.dispatch.outgoing import Reachable

if TYPE_CHECKING:
    from router.dialects.translate.translator import AnswerTranslator

HEARTBEAT = b": heartbeat\n\n"
"""A comment, which SSE readers skip: shows proxies and impatient clients a live connection."""
HEARTBEAT_SECONDS = 10.0
_USAGE_SECONDS = 0.5
"""How long usage is awaited for a caller who left."""
_DONE, _END_BYTES = b"[DONE]", 64


class SilenceWatch:
    """Checks a stream twice per heartbeat."""

    __slots__ = ("_beat_seconds", "_content_at", "_content_bytes", "_look_seconds", "_loop", "_stream", "_target", "_timer")

    def __init__(self, stream: "StreamedAnswer", target: Target, loop: asyncio.AbstractEventLoop, beat_seconds: float) -> None:
        self._stream, self._target, self._loop, self._beat_seconds = stream, target, loop, beat_seconds
        self._look_seconds = seconds = min(beat_seconds / 2, target.timeouts.stall_seconds / 4)
        self._content_bytes, self._content_at = 0, loop.time()
        self._timer = loop.call_later(seconds, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        stream = self._stream
        stream.silent_checks += 1
        if self._has_stalled(stream, self._loop.time()):
            return
        is_silent = stream.silent_checks * self._look_seconds >= self._beat_seconds
        if is_silent and stream.at_frame_end and not stream.is_paused:
            stream.silent_checks = 0
            stream.beat()
        self._timer = self._loop.call_later(self._look_seconds, self._look)

    def _has_stalled(self, stream: "StreamedAnswer", now: float) -> bool:
        """Comments show that a host is alive, not that it answers; before the first token, that it asks to wait."""
        seen = stream.content_bytes
        if seen != self._content_bytes or stream.is_paused:
            self._content_bytes, self._content_at = seen, now
            return False
        name, timeouts = self._target.name, self._target.timeouts
        limit = timeouts.stall_seconds
        if stream.first_token_at is None:
            limit = max(limit, timeouts.first_byte_seconds)
        if CLOCK.ran(self._content_at, now) < limit - 0.001:
            return False
        stream.fail(UpstreamTimeout(name, f'target "{name}" sent no event for {limit:g} s'))
        return True


class StreamedAnswer(Struct, eq=False):
    """A relay once its stream has begun. `finished` holds None for a complete answer."""

    context: DispatchContext
    opened: AttemptOpened
    view: RequestView
    _reachable: Reachable
    _caller: Sink
    _translator: "AnswerTranslator | None"
    finished: "asyncio.Future[TandemError | None]"
    _heartbeat_seconds: float = HEARTBEAT_SECONDS
    first_token_at: float | None = None
    has_reached_caller: bool = False
    was_paused: bool = False
    ended_in_stream: TandemError | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    hides_usage: bool = False
    """The target was asked for usage, but the caller did not want it."""
    is_over: bool = False
    _error: TandemError | None = None
    _watch: SilenceWatch | None = None
    _flow: Flow | None = None
    _tail: Tail | None = None
    _mark: bytes | None = None
    """Pieces with this are examined: the first token, later hidden usage."""
    _key_mark: bytes = NO_KEY.mark
    _held_back: bytes = b""
    """Bytes that may begin the target's key or hidden usage."""
    silent_checks: int = 0
    """Checks in a row without a piece, which resets it without reading the clock."""
    is_paused: bool = False

    __repr__ = object.__repr__  # never shown: it holds the caller's words

    @property
    def _target(self) -> str:
        return self.opened.target.name

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow
        self._caller.feed_from(self)

    def pause(self) -> None:
        self.was_paused = self.is_paused = True
        if self._flow is not None:
            self._flow.pause()

    def resume(self) -> None:
        self.is_paused = False
        if self._flow is not None:
            self._flow.resume()

    def _write_marked(self, data: bytes, tail: Tail) -> None:
        tail.add(data)
        self._write_part(data, tail)
        if self.first_token_at is None:
            self._note_first_token()

    def _write_part(self, data: bytes, tail: Tail) -> None:
        """Holds back a possible beginning of the target's key or of hidden usage."""
        guard, data = self._reachable.guard, self._held_back + data
        end = len(data)
        if not tail.at_frame_end:
            end = guard.split_end(data)
            if self.hides_usage:
                end = min(end, usage_may_begin(data, FIRST_TOKEN_MARKS[self.view.dialect]))
        self._held_back = data[end:]
        data = guard.clean(data[:end]) if data.rfind(guard.mark) >= 0 else data[:end]
        if self.hides_usage and data.rfind(USAGE_MARK) >= 0:
            data = without_usage(data)
        if data:
            self._caller.write(data)

    @property
    def at_frame_end(self) -> bool:
        return self._tail is not None and self._tail.at_frame_end

    @property
    def content_bytes(self) -> int:
        return self._tail.content_bytes if self._tail is not None else 0

    def beat(self) -> None:
        self._caller.write((self._translator.beat() if self._translator is not None else b"") or HEARTBEAT)

    def _note_first_token(self) -> None:
        self._mark = None
        if self.hides_usage:
            # Each piece is searched for a key anyway: without one, that search looks for usage.
            if self._key_mark is NO_KEY.mark:
                self._key_mark = USAGE_MARK
            else:
                self._mark = USAGE_MARK
        self.first_token_at = now = self.context.clock()
        self.context.exchange.note(FirstToken(now, self.opened.target))

    def _end_stream(self, tail: Tail) -> None:
        if not self._has_said_end(tail):
            self._break(UpstreamCut(self._target, f'target "{self._target}" ended its stream without the terminal event'), tail)

    def _has_said_end(self, tail: Tail) -> bool:
        end = self._read_end(tail)
        self._write_rest()
        if end.has_failed:
            self._pass_failure()
        elif end.is_complete:
            self._caller.end()
            self._settle(None)
        else:
            return False
        return True

    def _write_rest(self) -> None:
        """Nothing follows, so this is no key. Hidden usage is dropped."""
        if self._held_back:
            rest, self._held_back = self._held_back, b""
            if not (self.hides_usage and is_usage_alone(rest)):
                self._caller.write(rest)

    def _read_end(self, tail: Tail) -> StreamEnd:
        """A translated stream omits usage that its caller did not ask for."""
        end, translator = SPECS[self.view.dialect].read_end(tail.frames()), self._translator
        self.usage, self.timings = end.usage, end.timings
        if translator is not None:
            self.usage, self.timings = translator.usage or end.usage, translator.timings
        if self.usage is None and self.timings is not None:
            self.usage = self.timings.usage
        return end

    def _pass_failure(self) -> None:
        """No proper end may follow the target's error event."""
        self.ended_in_stream = UpstreamRefused(self._target, 502, b"", "")
        self._caller.fail(self.ended_in_stream)
        self._settle(self.ended_in_stream)

    def fail(self, error: TandemError) -> None:
        # The waiting task may be cancelled by a shutdown while the caller is still connected.
        if self.finished.done() and not self.finished.cancelled():
            return
        if self._tail is not None:
            self._break(error, self._tail)
        else:
            self._settle(error)

    def conclude(self) -> bool:
        """Whether the caller had everything when we hung up: clients leave at the terminal event, targets later or never."""
        if not self.is_over and self._tail is not None:
            self._has_said_end(self._tail)
        return self.is_over and self._error is self.ended_in_stream

    async def await_usage(self) -> None:
        """Read on for the usage that chat hosts report after the last word, though the caller has left."""
        tail = self._tail
        if tail is None or self.usage is not None or self._translator is not None or _DONE in tail.newest()[-_END_BYTES:]:
            return
        self.finished, self.is_over, self.hides_usage = self.finished.get_loop().create_future(), False, False
        with suppress(TimeoutError):
            # Not asyncio.timeout: in a task that was cancelled it raises CancelledError with Python 3.11.2.
            await asyncio.wait_for(self._hear_usage(tail), _USAGE_SECONDS)
        if not self.is_over:
            self._settle(None)

    async def _hear_usage(self, tail: Tail) -> None:
        while not self.is_over and self._read_end(tail).usage is None:
            self._caller = heard = Collected(-1)  # over with any piece
            await heard.over.wait()

    def expire(self) -> None:
        exchange = self.context.exchange
        if left := exchange.find_time_left(self.context.clock()):
            if not self.finished.done():
                self.finished.get_loop().call_later(left, self.expire)
            return
        self.fail(UpstreamTimeout(self._target, exchange.describe_deadline()))

    def _break(self, error: TandemError, tail: Tail) -> None:
        """End a broken stream: with an error event if a frame may follow, without a proper end."""
        if self._translator is not None and (rest := self._translator.conclude()):
            tail.add(rest)
            self._caller.write(rest)
        if self._has_said_end(tail):
            return  # only the connection broke, after the terminal event
        if tail.at_frame_end:
            self._caller.write(self._failure_event(error))
        self._caller.fail(error)
        self._settle(error)

    def _failure_event(self, error: TandemError) -> bytes:
        if self._translator is not None:
            return self._translator.break_off(error)
        return failure_event(error, self.view.dialect, self.context.exchange.id)

    def close(self) -> None:
        """Relay and producer refer to each other: breaking the cycle frees the request, perhaps megabytes, at once."""
        self._flow = None
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _settle(self, error: TandemError | None) -> None:
        self._flow = None
        if self._watch is not None:
            self.close()
        self.is_over = True
        if error is not None:
            self._error, self._caller = error, Collected(0)  # nothing may follow a failure
        if not self.finished.done():
            self.finished.set_result(error)
