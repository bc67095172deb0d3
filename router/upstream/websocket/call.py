"""One request over a session's socket, answered as if over HTTP, with HTTP as the fallback."""

import asyncio

from msgspec import Struct, field

from router.contract.caller import SessionKey
from router.contract.clock import CLOCK
from router.contract.errors import UpstreamCut, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from router.contract.relay import Headers, PreparedRequest, Sink, UpstreamCall, UpstreamRequest
from router.dialects.transports import headers_over_http
from router.loop.tasks import spawn
from router.upstream.call import check_fields
from router.upstream.connection import CannotConnect
from router.upstream.websocket.answer import Answer
from router.upstream.websocket.frames import (
    COMPLETED,
    ERROR,
    FORGOTTEN,
    ITEM_DONE,
    TERMINAL,
    TOO_OLD,
    as_error_event,
    as_event,
    kind_of,
    read_refusal,
    whole_answer,
)
from router.upstream.websocket.increment import Ask, read_message
from router.upstream.websocket.pool import SocketKey, SocketPool
from router.upstream.websocket.socket import TOO_LARGE, UpstreamSocket

_EVENTS = ("content-type", "text/event-stream")
_OF_THE_RESPONSE = "response."


class PreparedSocketCall:
    __slots__ = ("_pool", "http", "request")

    def __init__(self, pool: SocketPool, request: UpstreamRequest, http: PreparedRequest) -> None:
        self._pool, self.request, self.http = pool, request, http

    def open(self, body: bytes, sink: Sink, headers: Headers = (), session: SessionKey | None = None) -> UpstreamCall:
        check_fields(headers)
        if session is None or not self._pool.claim(key := self._pool.key_of(self.request, headers, session)):
            return self.http.open(body, sink, headers_over_http(headers))
        call = SocketCall(self, self._pool, key, body, sink, headers)
        sink.feed_from(call)
        socket = self._pool.take(key)
        if socket is None or self._pool.off_loop.is_large(body):
            call.begin_later(socket)
        else:
            call.begin(socket, *read_message(body, socket.baseline, headers))
        return call


class SocketCall(Struct, eq=False):
    """Owns a session's socket for one request. Until the first event, HTTP may take over.

    Every failure reaches the sink as one of our errors, once.
    """

    _prepared: PreparedSocketCall
    _pool: SocketPool
    _key: SocketKey
    _body: bytes
    _sink: Sink
    _headers: Headers
    _ask: Ask | None = None
    _socket: UpstreamSocket | None = None
    _http: UpstreamCall | None = None
    _timer: asyncio.TimerHandle | None = None
    _waiting_since: float = 0.0
    _answer: Answer = field(default_factory=lambda: Answer(()))
    _sent_bytes: int = 0
    _is_warm: bool = False
    """Whether its socket has served before: the target may just have closed it."""
    _was_sent_again: bool = False
    _is_paused: bool = False
    _is_over: bool = False

    __repr__ = object.__repr__  # it holds the target's key

    @property
    def _name(self) -> str:
        return self._prepared.request.target

    def begin_later(self, socket: UpstreamSocket | None) -> None:
        """Send the request once a socket is open and the body is read."""
        spawn(self._begin(socket), name=f"socket {self._name}")

    async def _begin(self, socket: UpstreamSocket | None) -> None:
        is_warm = socket is not None
        try:
            if socket is None:
                seconds = self._prepared.request.timeouts.connect_seconds
                socket = await self._pool.connect(self._key, self._headers, seconds)
            ask, text = await self._pool.off_loop.read(read_message, self._body, socket.baseline, self._headers)
            self.begin(socket, ask, text, is_warm=is_warm)
        except CannotConnect:
            self._go_over_http()
        except BaseException:
            # The sink must learn of every end, even after a bug: no timer is running yet.
            if socket is not None:
                socket.close()
            self._fail(UpstreamUnreachable, "could not be reached: the socket could not be set up")
            raise

    def begin(self, socket: UpstreamSocket, ask: Ask, text: bytes, *, is_warm: bool = True) -> None:
        self._ask, self._is_warm = ask, is_warm
        if self._is_over:
            self._pool.give_back(self._key, socket)
        elif not ask.may_go or not socket.is_usable or not self._pool.takes(self._key, len(text)):
            self._socket = socket
            self._go_over_http()
        else:
            self._send(socket, text)

    def _send(self, socket: UpstreamSocket, text: bytes) -> None:
        self._socket, self._sent_bytes = socket, len(text)
        self._answer = Answer(socket.past_ids)
        socket.baseline = None  # until this one is answered
        socket.send(self, text)
        if self._is_paused:
            socket.pause()
        self._waiting_since = socket.loop.time()
        if self._timer is None and self._prepared.request.waits_for_first_byte:
            self._timer = socket.loop.call_later(self._limit(), self._check)

    def received(self, text: bytes) -> None:
        kind, socket, answer = kind_of(text), self._socket, self._answer
        assert socket is not None
        if kind == ERROR:
            self._take_error(text, socket)
        elif kind.startswith(_OF_THE_RESPONSE):
            self._waiting_since = socket.loop.time()  # only here: other events must not delay the timeout
            if answer.belongs(kind, text):
                self._take_event(kind, text, socket)
            else:
                self._distrust(socket)
        elif kind and answer.has_begun:
            self._take_event(kind, text, socket)
        elif kind:
            answer.hold(kind, text)

    def _distrust(self, socket: UpstreamSocket) -> None:
        """The message is another answer's or unreadable: fall back to HTTP if the caller has nothing yet."""
        self._socket = None
        socket.close()
        if self._answer.has_begun:
            self._fail(UpstreamCut, "mixed up its answers, or sent one that cannot be read")
        else:
            self._go_over_http()

    def _take_event(self, kind: str, text: bytes, socket: UpstreamSocket) -> None:
        assert self._ask is not None
        is_streaming = self._ask.is_streaming
        if not self._answer.has_begun:
            self._answer.has_begun = True
            if is_streaming:
                self._sink.start(200, (_EVENTS, *self._headers_of_answer(socket)))
            if self._timer is not None:
                self._timer.cancel()
            self._timer = socket.loop.call_later(self._limit(), self._check)
        if kind == ITEM_DONE:
            self._answer.add_item(text)
        if is_streaming:
            self._sink.write(b"".join([*self._answer.release_early(), as_event(kind, text)]))
        if kind in TERMINAL and not self._is_over:
            self._finish(kind, text, socket)

    def _headers_of_answer(self, socket: UpstreamSocket) -> Headers:
        return tuple(dict((*socket.take_answer_headers(), *self._answer.limits)).items())

    def _finish(self, kind: str, text: bytes, socket: UpstreamSocket) -> None:
        ask = self._ask
        assert ask is not None
        self._end()
        answer = self._answer
        if answer.response_id:
            socket.past_ids.append(answer.response_id)
        if kind == COMPLETED and (items := answer.find_items(text)) is not None:
            socket.baseline = ask.remember(answer.response_id, items)
        if self._is_paused:
            socket.resume()
        self._pool.give_back(self._key, socket)
        if not ask.is_streaming:
            whole = whole_answer(kind, text)
            self._sink.start(whole.status, (*whole.headers, *self._headers_of_answer(socket)))
            self._sink.write(whole.body)
        self._sink.end()

    def _take_error(self, text: bytes, socket: UpstreamSocket) -> None:
        """A refusal before the first event, and the end of the answer after it."""
        refusal = read_refusal(text)
        if not self._answer.has_begun and not self._was_sent_again and self._may_send_again(refusal.code):
            self._was_sent_again = True
            self._send_again(socket, refusal.code)
            return
        if not self._answer.has_begun and refusal.code == TOO_OLD:
            self._socket = None
            socket.close()
            self._pool.leave_alone(self._key, "refused every socket as too old")
            self._go_over_http()
            return
        self._end()
        if self._answer.has_begun or refusal.status >= 500:
            self._pool.release(self._key)
            socket.close()
        else:
            self._pool.give_back(self._key, socket)
        if self._answer.has_begun and self._ask is not None and self._ask.is_streaming:
            self._sink.write(as_error_event(text))
        else:
            self._sink.start(refusal.status, (*self._headers_of_answer(socket), *refusal.headers))
            self._sink.write(refusal.body)
        self._sink.end()

    def _may_send_again(self, code: str) -> bool:
        """Whether sending everything may help: the target forgot the baseline, or the socket is too old."""
        return code == TOO_OLD or (code == FORGOTTEN and self._ask is not None and self._ask.is_increment)

    def _send_again(self, socket: UpstreamSocket, code: str) -> None:
        assert self._ask is not None
        if code == TOO_OLD:
            self._socket = None
            socket.close()
            self.begin_later(None)
        else:
            self._send(socket, self._ask.whole())

    def lost(self, code: int | None = None) -> None:
        """Before the first event, fall back to HTTP."""
        self._socket = None
        if self._answer.has_begun:
            self._fail(UpstreamCut, "closed the connection in the middle of its answer")
            return
        if code == TOO_LARGE:
            self._pool.note_too_large(self._key, self._sent_bytes)
        elif not self._is_warm:
            self._pool.note_lost(self._key, "closed without an answer")
        self._go_over_http()

    def pause(self) -> None:
        self._is_paused = True
        if self._socket is not None:
            self._socket.pause()

    def resume(self) -> None:
        self._is_paused = False
        if self._socket is not None:
            self._waiting_since = self._socket.loop.time()
            self._socket.resume()

    def cancel(self) -> None:
        """The protocol stops a response only by closing the socket."""
        http, socket = self._http, self._socket
        self._end()
        if socket is not None:
            self._pool.release(self._key)
            socket.close()
        if http is not None:
            http.cancel()

    def _go_over_http(self) -> None:
        if self._is_over:
            self._pool.release(self._key)
            return
        socket = self._socket
        self._end()
        if socket is not None and socket.is_usable:
            self._pool.give_back(self._key, socket)
        self._pool.release(self._key)
        self._http = http = self._prepared.http.open(self._body, self._sink, headers_over_http(self._headers))
        if self._is_paused:
            http.pause()

    def _fail(self, kind: type[UpstreamError], what: str) -> None:
        self._pool.release(self._key)
        if not self._is_over:
            socket = self._socket
            self._end()
            if socket is not None:
                socket.close()
            self._sink.fail(kind(self._name, f'target "{self._name}" {what}'))

    def _end(self) -> None:
        """Drop all references; the caller decides about the socket."""
        self._is_over, self._socket = True, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _limit(self) -> float:
        timeouts = self._prepared.request.timeouts
        return timeouts.stall_seconds if self._answer.has_begun else timeouts.first_byte_seconds

    def _check(self) -> None:
        """One timer for all waits: it checks the silence so far, and sleeps for the rest."""
        loop, limit = asyncio.get_running_loop(), self._limit()
        silent = 0.0 if self._is_paused else CLOCK.ran(self._waiting_since, loop.time())
        if silent < limit - 0.001:
            self._timer = loop.call_later(limit - silent, self._check)
            return
        what = (
            f"sent nothing for {limit:g} s in mid-answer"
            if self._answer.has_begun
            else f"did not begin to answer in {limit:g} s"
        )
        self._fail(UpstreamTimeout, what)
