"""One attempt's answer on its way to the caller: bytes as they come, and a verdict at the end.

Until the first event of a good answer is here nothing has gone to the caller, and another target may be tried. A streamed
answer is then passed on piece by piece. An answer that comes whole is held until it is whole, so that a broken one can
still be tried elsewhere.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from router.contract.errors import TandemError, UpstreamCut, UpstreamMalformed, UpstreamRefused, UpstreamTimeout
from router.contract.facts import AttemptOpened, FirstByte, FirstToken, LimitsTold
from router.contract.relay import Flow, Headers, Sink
from router.contract.request import JsonObject, RequestView
from router.contract.usage import Usage
from router.dialects.answers import FIRST_TOKEN_MARKS, follow_stream, read_stream_end, read_whole_answer
from router.dialects.headers import answer_headers
from router.dialects.refusals import failure_event, failure_refusal
from router.dialects.sse import StreamEnd, Tail
from router.dialects.translate.translator import AnswerTranslator
from router.dispatch.keys import NO_KEY
from router.dispatch.limits import LIMIT_HEADERS, read_windows
from router.dispatch.opening import Opening, begins_well
from router.dispatch.order import Order
from router.dispatch.outgoing import Reachable
from router.dispatch.passed_headers import passed_headers, stream_headers, without_type
from router.dispatch.refused import read_refusal
from router.dispatch.silence import HEARTBEAT, HEARTBEAT_SECONDS, SilenceWatch

_MAX_ERROR_BYTES = 1 << 20


class _Nowhere:
    """Takes what a target still pushes after its answer has failed: nothing may follow that."""

    def feed_from(self, flow: Flow) -> None: ...
    def start(self, status: int, headers: Headers) -> None: ...
    def write(self, data: bytes) -> None: ...
    def end(self) -> None: ...
    def fail(self, error: TandemError) -> None: ...


_NOWHERE = _Nowhere()


class Relay(Struct, eq=False):
    """The sink of one attempt. `finished` holds None for an answer that went out whole, or what went wrong.

    `FirstByte` and `FirstToken` are noted after the bytes are written, so nothing that observes them delays those.
    """

    order: Order
    opened: AttemptOpened
    view: RequestView
    _reachable: Reachable
    _caller: Sink
    _translator: AnswerTranslator | None
    finished: "asyncio.Future[TandemError | None]"
    _heartbeat_seconds: float = HEARTBEAT_SECONDS
    status: int | None = None
    first_token_at: float | None = None
    has_reached_caller: bool = False
    was_paused: bool = False
    ended_in_stream: TandemError | None = None
    usage: Usage | None = None
    is_over: bool = False
    _error: TandemError | None = None
    _watch: SilenceWatch | None = None
    _flow: Flow | None = None
    _opening: Opening | None = None
    _tail: Tail | None = None
    _mark: bytes | None = None
    _headers: Headers = ()
    _held: list[bytes] = []
    _held_bytes: int = 0
    _key_mark: bytes = NO_KEY.mark
    _key_begun: bytes = b""
    """The end of what has come, where the target's key may begin."""
    silent_checks: int = 0
    _is_good: bool = False
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

    def start(self, status: int, headers: Headers) -> None:
        self.status, self._headers = status, headers
        self._is_good = status // 100 == 2
        fields = dict(headers)
        if not LIMIT_HEADERS.isdisjoint(fields):
            self._note_limits(fields)
        if not self._is_good:
            return
        coding = fields.get("content-encoding")
        if coding and coding != "identity":
            self._settle(self._malformed("compressed its answer, which was not requested"))
        elif self.view.is_streaming:
            kind = fields.get("content-type", "").lower()
            if kind and not kind.startswith("text/event-stream"):
                kind = self._reachable.guard.clean(kind.encode("latin-1", "replace")).decode("latin-1")
                self._settle(self._malformed(f"answered {kind.split(';')[0][:60]} instead of an event stream"))

    def _note_limits(self, fields: Mapping[str, str]) -> None:
        if windows := read_windows(fields, self.order.clock()):
            self.order.exchange.note(LimitsTold(self.opened.target, windows))

    def write(self, data: bytes) -> None:
        tail = self._tail
        if tail is not None:
            if tail.add(data) or data.rfind(self._key_mark) >= 0:
                self._write_part(data, tail)
            else:
                self._caller.write(data)
            if self.silent_checks:
                self.silent_checks = 0
            if self._mark is not None and self._mark in data:
                self._note_first_token()
        elif self.finished.done():
            return
        elif self._is_good and self.view.is_streaming:
            self._begin_stream(data)
        else:
            self._hold(data)

    def _write_part(self, data: bytes, tail: Tail) -> None:
        """Write a piece that may hold the target's key, or a part of it: what may be its beginning waits for the next piece."""
        guard, data = self._reachable.guard, self._key_begun + data
        end = len(data) if tail.at_frame_end else guard.split_end(data)
        self._key_begun = data[end:]
        data = guard.clean(data[:end]) if data.rfind(self._key_mark) >= 0 else data[:end]
        if data:
            self._caller.write(data)

    def _begin_stream(self, data: bytes) -> None:
        """Begin to pass a stream on once it is known for an answer. What was translated is one: its target was asked first."""
        if self._opening is not None:
            self._opening.add(data)
        elif self._translator is not None or begins_well(data):
            self._commit(data)
        else:
            self._opening = Opening(self.view.dialect, self.finished, self._commit, self._refuse)
            self._opening.add(data)

    def _refuse(self, status: int, error: JsonObject) -> None:
        """The stream begins with an error: that is a refusal with a good status before it."""
        self.start(status, (("content-type", "application/json"), *without_type(self._headers)))
        self._hold(failure_refusal(self.view.dialect, status, error, self.order.exchange.id))
        self.end()

    def _commit(self, data: bytes) -> None:
        """From now on it is this target that answers."""
        dialect, self._opening = self.view.dialect, None
        self._tail = tail = follow_stream(dialect, self.view.body)
        self._key_mark = mark = self._reachable.guard.mark
        self.has_reached_caller = True
        self._caller.start(200, self._own_headers() + stream_headers(self._headers, self.view.id, self._reachable.guard))
        if tail.add(data) or data.rfind(mark) >= 0:
            self._write_part(data, tail)
        else:
            self._caller.write(data)
        self.order.exchange.note(FirstByte(self.opened.target))
        self._mark = mark = FIRST_TOKEN_MARKS[dialect]
        if mark in data:
            self._note_first_token()
        self._watch = SilenceWatch(self, self.opened.target, self.finished.get_loop(), self._heartbeat_seconds)

    def _own_headers(self) -> Headers:
        order, opened = self.order, self.opened
        exchange, carried = order.exchange, order.carried
        return answer_headers(
            exchange.id,
            order.decision,
            opened,
            ((order.first_call_at or opened.at) - exchange.began) * 1000,
            carried.get(opened.target.tier, ()) if carried else (),
            order.explanation,
        )

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

    def _hold(self, data: bytes) -> None:
        self._held_bytes += len(data)
        if self._held_bytes <= (self.order.max_bytes if self._is_good else _MAX_ERROR_BYTES):
            self._held.append(data)
        elif self._is_good:
            self._settle(self._malformed(f"answered an answer of more than {self.order.max_bytes} bytes"))
        else:
            self._settle(read_refusal(self._reachable, self.status or 0, self._headers, b"".join(self._held)))

    def end(self) -> None:
        if self._opening is not None:
            self._opening.end()
        if self.finished.done():
            return
        if self._tail is not None:
            self._end_stream(self._tail)
        elif not self._is_good:
            self._settle(read_refusal(self._reachable, self.status or 0, self._headers, b"".join(self._held)))
        elif self.view.is_streaming:
            self._settle(UpstreamCut(self._target, f'target "{self._target}" ended its stream before the first event'))
        else:
            self._end_whole(b"".join(self._held))

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

    def _end_whole(self, body: bytes) -> None:
        try:
            self.usage = read_whole_answer(self.view.dialect, body)
        except ValueError:
            self._settle(self._malformed("answered a body that is not valid in its dialect"))
            return
        self.has_reached_caller = True
        guard = self._reachable.guard
        if body.rfind(guard.mark) >= 0:
            body = guard.clean(body)
        passed = passed_headers(self._headers, self.view.id, guard)
        headers = self._own_headers() + passed + (("content-length", str(len(body))),)
        caller = self._caller
        caller.start(200, headers)
        caller.write(body)
        caller.end()
        self.order.exchange.note(FirstByte(self.opened.target))
        self._settle(None)

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

    def estimate_output_tokens(self) -> int:
        """Tokens of an answer whose host gave no usage: a frame is about one token, four bytes of a whole one are."""
        return self._tail.frames_seen if self._tail is not None else self._held_bytes // 4

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

    def _malformed(self, what: str) -> UpstreamMalformed:
        return UpstreamMalformed(self._target, f'target "{self._target}" {what}')
