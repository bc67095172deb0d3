"""One attempt's answer on its way to the caller: bytes as they come, and a verdict at the end.

Until the first byte of a good answer is here nothing has gone to the caller, and another target may be tried. A streamed
answer is then passed on piece by piece. An answer that comes whole is held until it is whole, so that a broken one can
still be tried elsewhere.
"""

import asyncio
import time
from collections.abc import Callable

from router.contract.errors import (
    TandemError,
    UpstreamAuth,
    UpstreamCut,
    UpstreamError,
    UpstreamMalformed,
    UpstreamModel,
    UpstreamRefused,
)
from router.contract.exchange import Exchange
from router.contract.facts import AnswerFacts, FirstByte, FirstToken
from router.contract.relay import Flow, Headers, Sink
from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.answers import FIRST_TOKEN_MARKS, read_stream_end, read_whole_answer
from router.dialects.headers import answer_headers
from router.dialects.refusals import failure_event
from router.dialects.sse import StreamEnd, Tail
from router.dialects.translate.translator import AnswerTranslator
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


def passed_headers(headers: Headers) -> Headers:
    """The target's headers that a caller may see. A fixed list: `openai-model` and its like never leave us."""
    return tuple([header for header in headers if header[0] in _PASSED_HEADERS or header[0].startswith(_PASSED_PREFIXES)])


class Relay:
    """The sink of one attempt. `finished` holds None for an answer that went out whole, or what went wrong.

    `FirstByte` and `FirstToken` are noted after the bytes are written, so nothing that observes them delays those.
    """

    def __init__(
        self,
        caller: Sink,
        exchange: Exchange,
        facts: AnswerFacts,
        *,
        dialect: Dialect,
        is_streaming: bool,
        max_bytes: int,
        translator: AnswerTranslator | None = None,
        reset_headers: tuple[str, ...] = (),
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._caller, self._exchange, self._facts, self._dialect = caller, exchange, facts, dialect
        self._target = facts.target.name
        self._translator, self._reset_headers = translator, reset_headers
        self._heartbeat_seconds = heartbeat_seconds
        self._heart: asyncio.TimerHandle | None = None
        self._silent_checks = 0
        self._wants_stream, self._max_bytes, self._clock = is_streaming, max_bytes, clock
        self._status = 0
        self._headers: Headers = ()
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._mark: bytes | None = FIRST_TOKEN_MARKS[dialect]
        self._tail: Tail | None = None
        self.finished: asyncio.Future[TandemError | None] = asyncio.get_running_loop().create_future()
        self.status: int | None = None
        self.first_token_at: float | None = None
        self.has_reached_caller = False
        self.ended_in_stream: TandemError | None = None
        self.usage: Usage | None = None
        self.was_paused = self._is_paused = False
        self._flow: Flow | None = None

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
        self._status = self.status = status
        self._headers = headers
        if not 200 <= status < 300:
            return
        kind = coding = ""
        for name, value in headers:
            if name == "content-type":
                kind = value.lower()
            elif name == "content-encoding":
                coding = value
        if coding and coding != "identity":
            self._settle(
                UpstreamMalformed(self._target, f'target "{self._target}" compressed its answer, which was not requested')
            )
        elif self._wants_stream and not kind.startswith("text/event-stream") and kind:
            self._settle(self._malformed(f"{kind.split(';')[0][:60]} instead of an event stream"))

    def write(self, data: bytes) -> None:
        tail = self._tail
        if tail is not None:
            tail.add(data)
            self._silent_checks = 0
            self._caller.write(data)
            if self._mark is not None and self._mark in data:
                self._note_first_token()
        elif self.finished.done():
            return
        elif 200 <= self._status < 300 and self._wants_stream:
            self._begin_stream(data)
        else:
            self._hold(data)

    def _begin_stream(self, data: bytes) -> None:
        self._tail = Tail()
        self._tail.add(data)
        self.has_reached_caller = True
        self._caller.start(200, answer_headers(self._facts) + _stream_headers(self._headers))
        self._caller.write(data)
        self._exchange.note(FirstByte(self._facts.target))
        if self._mark is not None and self._mark in data:
            self._note_first_token()
        self._listen_for_silence()

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
        self.first_token_at = now = self._clock()
        self._exchange.note(FirstToken(now, self._facts.target))

    def _hold(self, data: bytes) -> None:
        self._held_bytes += len(data)
        is_error = not 200 <= self._status < 300
        if self._held_bytes > (_MAX_ERROR_BYTES if is_error else self._max_bytes):
            if is_error:
                self._settle(self._read_refusal(b"".join(self._held)))
            else:
                self._settle(self._malformed(f"an answer of more than {self._max_bytes} bytes"))
            return
        self._held.append(data)

    def end(self) -> None:
        if self.finished.done():
            return
        if not 200 <= self._status < 300:
            self._settle(self._read_refusal(b"".join(self._held)))
        elif self._tail is not None:
            self._end_stream(self._tail)
        elif self._wants_stream:
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
        end = read_stream_end(self._dialect, tail.frames())
        self.usage = (self._translator.usage if self._translator is not None else None) or end.usage
        return end

    def _pass_failure(self) -> None:
        """The target's own error event went out with the other bytes; what follows a failure is never a proper end."""
        self.ended_in_stream = UpstreamRefused(self._target, 502, b"", "")
        self._caller.fail(self.ended_in_stream)
        self._settle(self.ended_in_stream)

    def _end_whole(self, body: bytes) -> None:
        try:
            self.usage = read_whole_answer(self._dialect, body)
        except ValueError:
            self._settle(self._malformed("a body that is not valid in its dialect"))
            return
        self.has_reached_caller = True
        headers = answer_headers(self._facts) + passed_headers(self._headers) + (("content-length", str(len(body))),)
        self._caller.start(200, headers)
        self._caller.write(body)
        self._caller.end()
        self._exchange.note(FirstByte(self._facts.target))
        self._settle(None)

    def fail(self, error: TandemError) -> None:
        # Who waits for the end may have been cancelled because the router stops: the caller is still there to be told.
        if self.finished.done() and not self.finished.cancelled():
            return
        if self._tail is not None:
            self._break(error, self._tail)
        else:
            self._settle(error)

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
        return failure_event(error, self._dialect, self._exchange.id)

    @property
    def has_served(self) -> bool:
        """Whether the answer went out whole, so that its connection is free again."""
        return self.finished.done() and not self.finished.cancelled() and self.finished.result() is None

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
        return UpstreamMalformed(self._target, f'target "{self._target}" answered {what}')

    def _read_refusal(self, body: bytes) -> UpstreamError:
        status, name = self._status, self._target
        if 300 <= status < 400:
            return self._malformed(f"{status}, a redirect; redirects are not followed")
        if status in (401, 402, 403):
            words = f'target "{name}" rejected the configured API key ({status}). Check api_key in the router\'s config'
            return UpstreamAuth(name, words)
        if status == 404:
            return UpstreamModel(name, f'target "{name}" does not know the configured model or path (404)')
        headers = dict(self._headers)
        kind = headers.get("content-type", "application/json")
        wait = read_retry_after(headers, self._reset_headers if status == 429 else ())
        return UpstreamRefused(name, status, body, kind, retry_after_seconds=wait)


def _stream_headers(headers: Headers) -> Headers:
    """A stream's own headers. Its type is set again, and proxies on the way must not buffer or cache it."""
    kept = tuple((name, value) for name, value in passed_headers(headers) if name != "content-type")
    return (
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
        *kept,
    )
