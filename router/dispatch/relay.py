"""One attempt's answer on its way to the caller: bytes as they come, and a verdict at the end.

Until the first byte of a good answer is here nothing has gone to the caller, and another target may be tried. A streamed
answer is then passed on piece by piece. An answer that comes whole is held until it is whole, so that a broken one can
still be tried elsewhere.
"""

import asyncio
from collections.abc import Callable

from router.contract.entry import Usage
from router.contract.errors import (
    TandemError,
    UpstreamAuth,
    UpstreamCut,
    UpstreamError,
    UpstreamMalformed,
    UpstreamModel,
    UpstreamRefused,
)
from router.contract.relay import Flow, Headers, Sink
from router.contract.words import Dialect
from router.dialects.answers import FIRST_TOKEN_MARKS, read_stream_end, read_whole_answer
from router.dialects.bridge.answer import BridgedAnswer
from router.dialects.refusals import failure_event
from router.dialects.sse import StreamEnd, Tail
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

    `begun` is told right behind the first bytes, before anything else can arrive: what it does delays no first token.
    """

    def __init__(
        self,
        client: Sink,
        *,
        target: str,
        dialect: Dialect,
        request_id: str,
        is_streaming: bool,
        max_bytes: int,
        head: Callable[[], Headers],
        begun: Callable[[], None],
        clock: Callable[[], float],
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._client, self._target, self._dialect, self._request_id = client, target, dialect, request_id
        self._heartbeat_seconds = heartbeat_seconds
        self._heart: asyncio.TimerHandle | None = None
        self._silent_checks = 0
        self._wants_stream, self._max_bytes, self._clock = is_streaming, max_bytes, clock
        self._head, self._begun = head, begun
        self._status = 0
        self._headers: Headers = ()
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._mark: bytes | None = FIRST_TOKEN_MARKS[dialect]
        self._tail: Tail | None = None
        self.finished: asyncio.Future[TandemError | None] = asyncio.get_running_loop().create_future()
        self.status: int | None = None
        self.first_token_at: float | None = None
        self.has_reached_client = False
        self.ended_in_stream: TandemError | None = None
        self.usage: Usage | None = None
        self.on_first_token: Callable[[float], None] | None = None
        self.recording: list[bytes] | None = None
        self.reset_headers: tuple[str, ...] = ()
        self.bridged: BridgedAnswer | None = None
        self.was_paused = self._is_paused = False
        self._flow: Flow | None = None

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow
        self._client.feed_from(self)

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
            self._settle(UpstreamMalformed(self._target, f'target "{self._target}" answered compressed, unasked'))
        elif self._wants_stream and not kind.startswith("text/event-stream") and kind:
            self._settle(self._malformed(f"{kind.split(';')[0][:60]} where a stream of events was asked for"))

    def write(self, data: bytes) -> None:
        tail = self._tail
        if tail is not None:
            tail.add(data)
            self._silent_checks = 0
            if self._mark is not None and self._mark in data:
                self._note_first_token()
            if self.recording is not None:
                self.recording.append(data)
            self._client.write(data)
        elif self.finished.done():
            return
        elif 200 <= self._status < 300 and self._wants_stream:
            self._tail = Tail()
            self.has_reached_client = True
            self._client.start(200, self._head() + _stream_headers(self._headers))
            self.write(data)
            self._begun()
            self._listen_for_silence()
        else:
            self._hold(data)

    def _listen_for_silence(self) -> None:
        """Look twice in the time of a heartbeat, so that a piece costs no look at the clock."""
        self._heart = self.finished.get_loop().call_later(self._heartbeat_seconds / 2, self._check_silence)

    def _check_silence(self) -> None:
        self._silent_checks += 1
        if self._silent_checks >= 2 and self._tail is not None and self._tail.at_frame_end and not self._is_paused:
            self._silent_checks = 0
            self._client.write((self.bridged.beat() if self.bridged is not None else b"") or _HEARTBEAT)
        self._listen_for_silence()

    def _note_first_token(self) -> None:
        self._mark = None
        self.first_token_at = now = self._clock()
        if self.on_first_token is not None:
            self.on_first_token(now)

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
            self._settle(UpstreamCut(self._target, f'target "{self._target}" ended its stream before it began'))
        else:
            self._end_whole(b"".join(self._held))

    def _end_stream(self, tail: Tail) -> None:
        end = self._read_end(tail)
        if end.has_failed:
            self._pass_failure()
        elif end.is_complete:
            self._client.end()
            self._settle(None)
        else:
            self._break(UpstreamCut(self._target, f'target "{self._target}" ended without its last event'), tail)

    def _read_end(self, tail: Tail) -> StreamEnd:
        """How the stream ended. A translated one says less of usage than its target did, if its caller did not ask."""
        end = read_stream_end(self._dialect, tail.frames())
        self.usage = (self.bridged.usage if self.bridged is not None else None) or end.usage
        return end

    def _pass_failure(self) -> None:
        """The target's own error event went out with the other bytes; what follows a failure is never a proper end."""
        self.ended_in_stream = UpstreamRefused(self._target, 502, b"", "")
        self._client.fail(self.ended_in_stream)
        self._settle(self.ended_in_stream)

    def _end_whole(self, body: bytes) -> None:
        try:
            self.usage = read_whole_answer(self._dialect, body)
        except ValueError:
            self._settle(self._malformed("a body that is no answer of its dialect"))
            return
        self.has_reached_client = True
        headers = self._head() + passed_headers(self._headers) + (("content-length", str(len(body))),)
        self._client.start(200, headers)
        if self.recording is not None:
            self.recording.append(body)
        self._client.write(body)
        self._client.end()
        self._begun()
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
            self._client.end()
            self._settle(None)
            return
        if tail.at_frame_end:
            self._client.write(self._failure_event(error))
        self._client.fail(error)
        self._settle(error)

    def _failure_event(self, error: TandemError) -> bytes:
        if self.bridged is not None:
            return self.bridged.break_off(error)
        return failure_event(error, self._dialect, self._request_id)

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
            return self._malformed(f"{status}, a redirect, which is not followed")
        if status in (401, 402, 403):
            return UpstreamAuth(name, f'target "{name}" refused our key ({status}). The operator must mend it')
        if status == 404:
            return UpstreamModel(name, f'target "{name}" does not know the model or path in the config (404)')
        headers = dict(self._headers)
        kind = headers.get("content-type", "application/json")
        wait = read_retry_after(headers, self.reset_headers if status == 429 else ())
        return UpstreamRefused(name, status, body, kind, retry_after_seconds=wait)


def _stream_headers(headers: Headers) -> Headers:
    """A stream's own headers. Its type is stated anew, and nobody on the way may hold it back or keep it."""
    kept = tuple((name, value) for name, value in passed_headers(headers) if name != "content-type")
    return (
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
        *kept,
    )
