"""One attempt's answer on its way to the caller: bytes as they come, and a verdict at the end.

Until the first byte of a good answer is here nothing has gone to the caller, and another target may be tried. A streamed
answer is then passed on piece by piece. An answer that comes whole is held until it is whole, so that a broken one can
still be tried elsewhere.
"""

import asyncio
from functools import lru_cache
from itertools import compress
from operator import itemgetter

from msgspec import Struct

from router.contract.errors import (
    TandemError,
    UpstreamAuth,
    UpstreamCut,
    UpstreamError,
    UpstreamMalformed,
    UpstreamModel,
    UpstreamRefused,
    UpstreamTimeout,
)
from router.contract.facts import AttemptOpened, FirstByte, FirstToken
from router.contract.relay import Flow, Headers, Sink
from router.contract.request import RequestView
from router.contract.usage import Usage
from router.dialects.answers import FIRST_TOKEN_MARKS, TELLING, read_stream_end, read_whole_answer
from router.dialects.headers import answer_headers
from router.dialects.refusals import failure_event
from router.dialects.sse import StreamEnd, Tail
from router.dialects.translate.translator import AnswerTranslator
from router.dispatch.order import Order
from router.dispatch.outgoing import Reachable
from router.dispatch.waits import read_retry_after

_MAX_ERROR_BYTES = 1 << 20
_PASSED_HEADERS = frozenset(
    """
    content-type retry-after retry-after-ms x-request-id request-id openai-processing-ms openai-version
    anthropic-organization-id x-reasoning-included
    """.split()
)
_PASSED_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")
_HEARTBEAT = b": heartbeat\n\n"
"""A comment, which every reader of events skips. It tells proxies and impatient clients that the line is alive."""
HEARTBEAT_SECONDS = 10.0


_name_of = itemgetter(0)


# Both are asked of every header of every answer, but of few different names.


@lru_cache(maxsize=1024)
def _is_passed(name: str) -> bool:
    return name in _PASSED_HEADERS or name.startswith(_PASSED_PREFIXES)


@lru_cache(maxsize=1024)
def _is_passed_by_stream(name: str) -> bool:
    return name != "content-type" and _is_passed(name)


def passed_headers(headers: Headers) -> Headers:
    """The target's headers that a caller may see. A fixed list: `openai-model` and its like never leave us."""
    return tuple(compress(headers, map(_is_passed, map(_name_of, headers))))


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
    _heart: asyncio.TimerHandle | None = None
    _flow: Flow | None = None
    _tail: Tail | None = None
    _mark: bytes | None = None
    _headers: Headers = ()
    _held: list[bytes] = []
    _held_bytes: int = 0
    _silent_checks: int = 0
    _is_good: bool = False
    _is_paused: bool = False

    __repr__ = object.__repr__  # what it holds, the caller's words among it, is never shown

    @property
    def _target(self) -> str:
        return self.opened.target.name

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow
        self._caller.feed_from(self)

    def pause(self) -> None:
        """The caller reads slowly."""
        self.was_paused = self._is_paused = True
        if self._flow is not None:
            self._flow.pause()

    def resume(self) -> None:
        """The caller caught up."""
        self._is_paused = False
        if self._flow is not None:
            self._flow.resume()

    def start(self, status: int, headers: Headers) -> None:
        self.status, self._headers = status, headers
        if status // 100 != 2:
            return
        self._is_good = True
        fields = dict(headers)
        coding = fields.get("content-encoding")
        if coding and coding != "identity":
            self._settle(self._malformed("compressed its answer, which was not requested"))
        elif self.view.is_streaming:
            kind = fields.get("content-type", "").lower()
            if kind and not kind.startswith("text/event-stream"):
                self._settle(self._malformed(f"answered {kind.split(';')[0][:60]} instead of an event stream"))

    def write(self, data: bytes) -> None:
        tail = self._tail
        if tail is not None:
            tail.add(data)
            self._caller.write(data)
            if self._silent_checks:
                self._silent_checks = 0
            if self._mark is not None and self._mark in data:
                self._note_first_token()
        elif self.finished.done():
            return
        elif self._is_good and self.view.is_streaming:
            self._begin_stream(data)
        else:
            self._hold(data)

    def _begin_stream(self, data: bytes) -> None:
        dialect = self.view.dialect
        self._tail = tail = Tail(TELLING[dialect])
        tail.add(data)
        self.has_reached_caller = True
        self._caller.start(200, self._own_headers() + _stream_headers(self._headers))
        self._caller.write(data)
        self.order.exchange.note(FirstByte(self.opened.target))
        self._mark = mark = FIRST_TOKEN_MARKS[dialect]
        if mark in data:
            self._note_first_token()
        self._listen_for_silence()

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

    def _listen_for_silence(self) -> None:
        """Look twice in the time of a heartbeat, so that a piece costs no look at the clock."""
        self._heart = self.finished.get_loop().call_later(self._heartbeat_seconds / 2, self._check_silence)

    def _check_silence(self) -> None:
        self._silent_checks += 1
        if self._silent_checks >= 2 and self._tail is not None and self._tail.at_frame_end and not self._is_paused:
            self._silent_checks = 0
            self._caller.write((self._translator.beat() if self._translator is not None else b"") or _HEARTBEAT)
        self._listen_for_silence()

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
            self._settle(self._read_refusal(b"".join(self._held)))

    def end(self) -> None:
        if self.finished.done():
            return
        if self._tail is not None:
            self._end_stream(self._tail)
        elif not self._is_good:
            self._settle(self._read_refusal(b"".join(self._held)))
        elif self.view.is_streaming:
            self._settle(UpstreamCut(self._target, f'target "{self._target}" ended its stream before the first event'))
        else:
            self._end_whole(b"".join(self._held))

    def _end_stream(self, tail: Tail) -> None:
        end = self._read_end(tail)
        if end.has_failed:
            self._pass_failure()
        elif end.is_complete:
            self._caller.end()
            self._settle(None)
        else:
            self._break(UpstreamCut(self._target, f'target "{self._target}" ended its stream without the terminal event'), tail)

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
        headers = self._own_headers() + passed_headers(self._headers) + (("content-length", str(len(body))),)
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

    def expire(self) -> None:
        """The request's deadline has passed."""
        exchange = self.order.exchange
        seconds = exchange.deadline.at - exchange.began
        self.fail(UpstreamTimeout(self._target, f"the request's deadline of {seconds:g} s has passed"))

    def _break(self, error: TandemError, tail: Tail) -> None:
        """A stream that failed after its first byte: say so if a frame may follow, then close without a proper end."""
        end = self._read_end(tail)
        if end.has_failed:
            self._pass_failure()
            return
        if end.is_complete:
            # The terminal event came; what broke is only the connection behind it.
            self._caller.end()
            self._settle(None)
            return
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
        if self._heart is not None:
            self._heart.cancel()

    def _settle(self, error: TandemError | None) -> None:
        self.close()
        if not self.finished.done():
            self.finished.set_result(error)

    def _malformed(self, what: str) -> UpstreamMalformed:
        return UpstreamMalformed(self._target, f'target "{self._target}" {what}')

    def _read_refusal(self, body: bytes) -> UpstreamError:
        status, name = self.status or 0, self._target
        if 300 <= status < 400:
            return self._malformed(f"answered {status}, a redirect; redirects are not followed")
        if status in (401, 402, 403):
            words = f'target "{name}" rejected the configured API key ({status}). Check api_key in the router\'s config'
            return UpstreamAuth(name, words)
        if status == 404:
            return UpstreamModel(name, f'target "{name}" does not know the configured model or path (404)')
        headers = dict(self._headers)
        kind = headers.get("content-type", "application/json")
        wait = read_retry_after(headers, self._reachable.fit.quirks.reset_headers if status == 429 else ())
        return UpstreamRefused(name, status, body, kind, retry_after_seconds=wait)


def _stream_headers(headers: Headers) -> Headers:
    """A stream's own headers. Its type is set again, and proxies on the way must not buffer or cache it."""
    kept = compress(headers, map(_is_passed_by_stream, map(_name_of, headers)))
    return (
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
        *kept,
    )
