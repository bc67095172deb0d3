"""The sinks between a target and its caller, and what the router itself says on that way.

An answer passes at most five sinks, in this order, before the caller's own (`CallerSink`, `AsgiSink` or `FrameSink` in `edge`;
`LogSink` in `jobs` for background work):

1. `TranslatingSink`, where the target speaks another dialect: from here on all is in the caller's.
2. `Relay`, always: decides whether it is an answer, and takes out what is not the caller's to see.
3. `WaitingSink`, where targets have quotas: keeps the line alive until a target answers.
4. `WatchedSink`, where the answer is kept or captured: everybody who wants to see it watches this one.
5. `AcknowledgedSink`, where routers share a store: holds the end back until what was written there is confirmed.

`PassingSink` takes the place of 1 to 3 on routes that are not decided. A fact about the answer is passed to `tell` and never
written between its bytes, so nothing that a target sends can be taken for one.
"""

import asyncio
from typing import Protocol

from msgspec import Struct

from router.contract.errors import TandemError
from router.contract.relay import Flow, Headers, Sink


class Waiting(Struct, frozen=True):
    """The request is in a target's queue. Its caller has the head of the answer."""

    target: str
    position: int
    length: int
    """Of the queue, with this request."""
    seconds: float
    """How long it is expected to wait yet."""


class Serving(Struct, frozen=True):
    """A target answers a request whose caller has a head already. `headers` are what that head could not say."""

    headers: Headers


AnswerFact = Waiting | Serving


class AnswerSink(Sink, Protocol):
    """A sink on the caller's side, to which the router can also say something about the answer."""

    @property
    def has_started(self) -> bool:
        """Whether anything of an answer has gone to the caller."""
        ...

    def tell(self, fact: AnswerFact) -> None:
        """Report a fact between two pieces of a stream: in a comment over HTTP, in a frame of its own over a WebSocket."""
        ...


class Watcher(Protocol):
    """Sees an answer on its way to the caller, and changes nothing."""

    def add(self, data: bytes) -> None:
        """See a piece of the body, just before the caller gets it."""
        ...

    def finish(self) -> None:
        """The body is whole. Not called for an answer that fails."""
        ...


class Copy:
    """Keeps the body of an answer, unless it gets longer than `max_bytes`."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._pieces: list[bytes] = []

    def add(self, data: bytes) -> None:
        self._bytes += len(data)
        if self.is_too_long:
            self._pieces.clear()
        else:
            self._pieces.append(data)

    def finish(self) -> None: ...

    @property
    def is_too_long(self) -> bool:
        return self._max_bytes is not None and self._bytes > self._max_bytes

    @property
    def body(self) -> bytes:
        """What was answered so far; empty if that is too long."""
        return b"".join(self._pieces)


class WatchedSink:
    """Passes an answer on unchanged. Those who watch it see each piece first."""

    def __init__(self, caller: AnswerSink, *watchers: Watcher) -> None:
        self._caller, self.watchers = caller, list(watchers)
        self.headers: Headers = ()
        """The head of the answer. A caller who waited for a target got another one before it."""

    @property
    def has_started(self) -> bool:
        return self._caller.has_started

    def feed_from(self, flow: Flow) -> None:
        self._caller.feed_from(flow)

    def start(self, status: int, headers: Headers) -> None:
        self.headers = headers
        self._caller.start(status, headers)

    def tell(self, fact: AnswerFact) -> None:
        if isinstance(fact, Serving):
            self.headers = fact.headers
        self._caller.tell(fact)

    def write(self, data: bytes) -> None:
        for watcher in self.watchers:
            watcher.add(data)
        self._caller.write(data)

    def end(self) -> None:
        for watcher in self.watchers:
            watcher.finish()
        self._caller.end()

    def fail(self, error: TandemError) -> None:
        self._caller.fail(error)


def watch(caller: AnswerSink, watcher: Watcher) -> WatchedSink:
    """The way to a caller with one more who watches. There is one such sink on it, however many watch."""
    if isinstance(caller, WatchedSink):
        caller.watchers.append(watcher)
        return caller
    return WatchedSink(caller, watcher)


class Collected:
    """The end of an answer that is for the router itself. Keeps up to about `max_bytes` of it."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self.status = 0
        self.headers: Headers = ()
        self.body = bytearray()
        self.error: TandemError | None = None
        self.has_ended = self.is_too_long = False
        self.over = asyncio.Event()
        """Nothing more is waited for: the answer has ended, or is too long."""
        self._max_bytes = max_bytes

    @property
    def has_started(self) -> bool:
        return self.status != 0

    @property
    def fields(self) -> dict[str, str]:
        """The headers by their names."""
        return dict(self.headers)

    def feed_from(self, flow: Flow) -> None:
        """Nothing is paused: what is kept has a limit."""

    def start(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers

    def tell(self, fact: AnswerFact) -> None: ...

    def write(self, data: bytes) -> None:
        if self._max_bytes is None or len(self.body) <= self._max_bytes:
            self.body += data
        else:
            self.is_too_long = True
            self.over.set()

    def end(self) -> None:
        self.has_ended = True
        self.over.set()

    def fail(self, error: TandemError) -> None:
        self.error = error
        self.end()


def send_whole(sink: Sink, headers: Headers, body: bytes) -> None:
    """Send an answer of our own making."""
    sink.start(200, (*headers, ("content-length", str(len(body)))))
    sink.write(body)
    sink.end()
