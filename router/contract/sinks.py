"""Sinks between a target and its caller, and what the router says on the way.

An answer passes up to seven of them before the caller's own (`CallerSink`, `AsgiSink` or `FrameSink` in `edge`; `LogSink` in
`jobs` for background work):

1. `TranslatingSink`, if the target speaks another dialect than the caller.
2. `Relay`, always: decides whether it is an answer, and removes what is not for the caller. `CappedRelay` in its place for a
   stream to a caller with a budget: ends it when nothing is left.
3. `WaitingSink`, if targets have quotas: keeps the line alive until a target answers.
4. `HeldEnd`, if deep may look at the answer: holds back its end, to which a text may be added.
5. `NamedSink`, if the request continues a response: names it where the target does not.
6. `WatchedSink`, if the answer is kept or captured.
7. `AcknowledgedSink`, if routers share a store: holds back the end until writes there are confirmed.

`PassingSink` replaces 1 to 3 on routes that are not decided. Facts go through `tell`, never between the bytes, so that no
target can forge one.
"""

import asyncio
from typing import Protocol

from msgspec import Struct

from router.contract.errors import TandemError
from router.contract.relay import Flow, Headers, Sink


class Waiting(Struct, frozen=True):
    target: str
    position: int
    length: int
    """Length of the queue, this request included."""
    seconds: float
    """Expected wait from now."""


class Serving(Struct, frozen=True):
    """`headers` are what the head that the caller already has could not say."""

    headers: Headers


AnswerFact = Waiting | Serving


class AnswerSink(Sink, Protocol):
    """A sink that also takes facts about the answer."""

    @property
    def has_started(self) -> bool:
        """Whether the caller has received anything."""
        ...

    def tell(self, fact: AnswerFact) -> None:
        """Report a fact between two pieces of a stream: a comment over HTTP, a frame over a WebSocket."""
        ...


class Watcher(Protocol):
    """Sees an answer on its way to the caller."""

    def add(self, data: bytes) -> None:
        """Called just before the caller gets the piece."""
        ...

    def finish(self) -> None:
        """Not called for an answer that fails."""
        ...


class Copy:
    """Keeps the body of an answer, up to `max_bytes`."""

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
        """Empty if it is too long."""
        return b"".join(self._pieces)


class WatchedSink:
    """Passes an answer on unchanged; watchers see each piece first."""

    def __init__(self, caller: AnswerSink, *watchers: Watcher) -> None:
        self._caller, self.watchers = caller, list(watchers)
        self.headers: Headers = ()
        """The answer's own head. A caller that waited has received another."""

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
    """Add a watcher: one `WatchedSink` serves all."""
    if isinstance(caller, WatchedSink):
        caller.watchers.append(watcher)
        return caller
    return WatchedSink(caller, watcher)


class Collected:
    """Collects an answer for the router itself."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self.status = 0
        self.headers: Headers = ()
        self.body = bytearray()
        self.error: TandemError | None = None
        self.has_ended = self.is_too_long = False
        self.over = asyncio.Event()
        """Set when the answer has ended or is too long."""
        self._max_bytes = max_bytes

    @property
    def has_started(self) -> bool:
        return self.status != 0

    @property
    def fields(self) -> dict[str, str]:
        return dict(self.headers)

    def feed_from(self, flow: Flow) -> None:
        """Never pauses: what is kept has a limit."""

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
    sink.start(200, (*headers, ("content-length", str(len(body)))))
    sink.write(body)
    sink.end()
