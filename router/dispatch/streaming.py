"""A streamed answer under way: what the caller has had of it, and how it ends, well or not.

From its first piece on it belongs to one target, and nothing can be tried again. What comes before that is in `relay`.
"""

import asyncio

from msgspec import Struct

from router.contract.errors import TandemError, UpstreamCut, UpstreamRefused, UpstreamTimeout
from router.contract.facts import AttemptOpened, FirstToken
from router.contract.relay import Flow, Headers, Sink
from router.contract.request import RequestView
from router.contract.usage import Usage
from router.dialects.answers import read_stream_end
from router.dialects.refusals import failure_event
from router.dialects.sse import StreamEnd, Tail
from router.dialects.translate.translator import AnswerTranslator
from router.dispatch.keys import NO_KEY
from router.dispatch.order import Order
from router.dispatch.outgoing import Reachable
from router.dispatch.silence import HEARTBEAT, HEARTBEAT_SECONDS, SilenceWatch


class _Nowhere:
    """Takes what a target still pushes after its answer has failed: nothing may follow that."""

    def feed_from(self, flow: Flow) -> None: ...
    def start(self, status: int, headers: Headers) -> None: ...
    def write(self, data: bytes) -> None: ...
    def end(self) -> None: ...
    def fail(self, error: TandemError) -> None: ...


_NOWHERE = _Nowhere()


class StreamedAnswer(Struct, eq=False):
    """What a relay is once a stream has begun. `finished` holds None for an answer that went out whole, or what went wrong."""

    order: Order
    opened: AttemptOpened
    view: RequestView
    _reachable: Reachable
    _caller: Sink
    _translator: AnswerTranslator | None
    finished: "asyncio.Future[TandemError | None]"
    _heartbeat_seconds: float = HEARTBEAT_SECONDS
    first_token_at: float | None = None
    has_reached_caller: bool = False
    was_paused: bool = False
    ended_in_stream: TandemError | None = None
    usage: Usage | None = None
    is_over: bool = False
    _error: TandemError | None = None
    _watch: SilenceWatch | None = None
    _flow: Flow | None = None
    _tail: Tail | None = None
    _mark: bytes | None = None
    _key_mark: bytes = NO_KEY.mark
    _key_begun: bytes = b""
    """The end of what has come, where the target's key may begin."""
    silent_checks: int = 0
    is_paused: bool = False

    __repr__ = object.__repr__  # what it holds, the caller's words among it, is never shown

    @property
    def _target(self) -> str:
        return self.opened.target.name

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow
        self._caller.feed_from(self)

    def pause(self) -> None:
        """The caller reads slowly."""
        self.was_paused = self.is_paused = True
        if self._flow is not None:
            self._flow.pause()

    def resume(self) -> None:
        """The caller caught up."""
        self.is_paused = False
        if self._flow is not None:
            self._flow.resume()

    def _write_part(self, data: bytes, tail: Tail) -> None:
        """Write a piece that may hold the target's key, or a part of it: what may be its beginning waits for the next piece."""
        guard, data = self._reachable.guard, self._key_begun + data
        end = len(data) if tail.at_frame_end else guard.split_end(data)
        self._key_begun = data[end:]
        data = guard.clean(data[:end]) if data.rfind(self._key_mark) >= 0 else data[:end]
        if data:
            self._caller.write(data)

    @property
    def at_frame_end(self) -> bool:
        return self._tail is not None and self._tail.at_frame_end

    @property
    def content_bytes(self) -> int:
        return self._tail.content_bytes if self._tail is not None else 0

    def beat(self) -> None:
        """Tell the caller that the line is alive."""
        self._caller.write((self._translator.beat() if self._translator is not None else b"") or HEARTBEAT)

    def _note_first_token(self) -> None:
        self._mark = None
        self.first_token_at = now = self.order.clock()
        self.order.exchange.note(FirstToken(now, self.opened.target))

    def _end_stream(self, tail: Tail) -> None:
        if not self._has_said_end(tail):
            self._break(UpstreamCut(self._target, f'target "{self._target}" ended its stream without the terminal event'), tail)

    def _has_said_end(self, tail: Tail) -> bool:
        """End the stream as its target said that it ended, if it has."""
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
        """Nothing comes after it: what waited was not the beginning of a key."""
        if self._key_begun:
            rest, self._key_begun = self._key_begun, b""
            self._caller.write(rest)

    def _read_end(self, tail: Tail) -> StreamEnd:
        """How the stream ended. A translated one says less of usage than its target did, if its caller did not ask."""
        end = read_stream_end(self.view.dialect, tail.frames())
        self.usage = (self._translator.usage if self._translator is not None else None) or end.usage
        return end

    def _pass_failure(self) -> None:
        """The target's own error event went out with the other bytes; what follows a failure is never a proper end."""
        self.ended_in_stream = UpstreamRefused(self._target, 502, b"", "")
        self._caller.fail(self.ended_in_stream)
        self._settle(self.ended_in_stream)

    def fail(self, error: TandemError) -> None:
        # Who waits for the end may have been cancelled because the router stops: the caller is still there to be told.
        if self.finished.done() and not self.finished.cancelled():
            return
        if self._tail is not None:
            self._break(error, self._tail)
        else:
            self._settle(error)

    def conclude(self) -> bool:
        """The line was cut from our side. Whether the caller had all of the answer by then, which ends as its target said.

        A client hangs up as soon as it has the terminal event, and its target may close the line later than that, or never.
        """
        if not self.is_over and self._tail is not None:
            self._has_said_end(self._tail)
        return self.is_over and self._error is self.ended_in_stream

    def expire(self) -> None:
        """The request's deadline has passed."""
        exchange = self.order.exchange
        seconds = exchange.deadline.at - exchange.began
        self.fail(UpstreamTimeout(self._target, f"the request's deadline of {seconds:g} s has passed"))

    def _break(self, error: TandemError, tail: Tail) -> None:
        """A stream that failed after its first byte: say so if a frame may follow, then close without a proper end."""
        if self._translator is not None and (rest := self._translator.conclude()):
            tail.add(rest)
            self._caller.write(rest)
        if self._has_said_end(tail):
            return  # what broke is only the connection behind the terminal event
        if tail.at_frame_end:
            self._caller.write(self._failure_event(error))
        self._caller.fail(error)
        self._settle(error)

    def _failure_event(self, error: TandemError) -> bytes:
        if self._translator is not None:
            return self._translator.break_off(error)
        return failure_event(error, self.view.dialect, self.order.exchange.id)

    def close(self) -> None:
        """Nothing more is relayed: the answer is over, or its caller is gone.

        Who pushes and who is pushed to know each other. Let go here, a request is freed at once with its body of megabytes,
        and not when the collector comes by.
        """
        self._flow = None
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _settle(self, error: TandemError | None) -> None:
        self.close()
        self.is_over, self._error = True, error
        if error is not None:
            self._caller = _NOWHERE
        if not self.finished.done():
            self.finished.set_result(error)
