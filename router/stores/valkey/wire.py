"""One connection to a Valkey or Redis server, with pipelined commands."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis  # from the extra `shared`

from router.contract.stores import StoreUnusable

Word = str | bytes | int | float
_READ_SECONDS = 0.01
"""Extra time to read a reply that has already arrived."""
_ENDS = frozenset({"NOSCRIPT", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOAUTH"})
"""Error codes that end a connection: the server's scripts were flushed, or it is no longer the primary. A new connection loads
the scripts, or finds the new primary."""
_MEANINGS = {
    "OOM": "its memory is full",
    "MISCONF": "it cannot save to its disk",
    "NOREPLICAS": "it has too few replicas",
    "NOPERM": "its user may not use a command, a key or a channel",
    "BUSY": "it is busy with a script",
    "WRONGTYPE": "another program uses a key of ours",
}
_pack: Any = hiredis.pack_command  # its types allow only one word
_Push, _Error = hiredis.PushNotification, hiredis.ReplyError


class Refused(StoreUnusable):
    def __init__(self, code: str) -> None:
        self.code = code
        self.reason = f"{code}: {_MEANINGS[code]}" if code in _MEANINGS else code
        super().__init__(f"the server answered {self.reason}")


class Away(StoreUnusable):
    """The server cannot be asked, or did not answer in time. The command may have run anyway."""


class Foreign(Away):
    def __init__(self, reason: str = "what answers there is no Valkey or Redis server") -> None:
        super().__init__(reason)


class Wire(asyncio.Protocol):
    """The connection, used once: a failure calls for a new one.

    One timer watches the oldest unanswered command. If that is overdue, the connection is closed and all waiting commands fail.
    """

    def __init__(self, timeout_seconds: float, on_message: Callable[[bytes, bytes], None], lost: Callable[[str], None]) -> None:
        self._timeout, self._on_message, self._on_lost = timeout_seconds, on_message, lost
        self._on_refused: Callable[[Refused], None] = lambda error: None
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._overdue: asyncio.Future[Any] | None = None
        self._transport: Any = None
        self.trips, self.seconds = 0, 0.0

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def follow(self, timeout_seconds: float, lost: Callable[[str], None], refused: Callable[[Refused], None]) -> None:
        """Set the time limit and the callbacks."""
        self._timeout, self._on_lost, self._on_refused = timeout_seconds, lost, refused

    def send(self, *words: Word) -> "asyncio.Future[Any]":
        """Send a command. The future has its reply, or a `StoreUnusable`.

        A `SUBSCRIBE` names one channel, as the server confirms each separately.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._transport is None:
            future.set_exception(Away("the connection is closed"))
            return future
        now = self._loop.time()
        self._waiting.append((now, future))
        if self._timer is None:
            self._timer = self._loop.call_at(now + self._timeout, self._check_overdue)
        self._transport.write(_pack(words))
        return future

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while (answer := reader.gets()) is not False:
                self._take(answer)
        except hiredis.ProtocolError:
            self.end(str(Foreign()), Foreign)

    def connection_lost(self, error: Exception | None) -> None:
        self.end("the connection was closed")

    def end(self, reason: str, kind: type[Away] = Away) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(kind(reason))
        self._on_lost(reason)

    def _take(self, answer: Any) -> None:
        if isinstance(answer, _Push) and answer[:1] != [b"subscribe"]:
            if answer[:1] == [b"message"]:
                self._on_message(answer[1], answer[2])
            return
        if not self._waiting:
            self.end("the server answered what nobody asked")
            return
        asked_at, future = self._waiting.popleft()
        self.trips += 1
        self.seconds += self._loop.time() - asked_at
        has_left = future.done()
        if not isinstance(answer, _Error):
            if not has_left:
                future.set_result(answer)
            return
        error = Refused(str(answer).partition(" ")[0])
        if not has_left:
            future.set_exception(error)
        if error.code in _ENDS:
            self.end(str(error))
        else:
            self._on_refused(error)

    def _check_overdue(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        asked_at, oldest = self._waiting[0]
        due, now = asked_at + self._timeout, self._loop.time()
        if now < due:
            self._timer = self._loop.call_at(due, self._check_overdue)
        elif self._overdue is not oldest:
            # After a stall this timer may fire before a reply that arrived was read: read first.
            self._overdue, self._timer = oldest, self._loop.call_at(now + _READ_SECONDS, self._check_overdue)
        else:
            self.end("the server did not answer in time")
