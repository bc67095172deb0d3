"""The link to the shared Valkey or Redis server: a connection for commands, one for pub/sub, a breaker, and no retries.

Without a connection commands fail at once; a background probe reconnects, twice a second. A command that times out closes the
connection, so that a late reply is never taken for another's.

Pub/sub has its own connection: servers drop subscribers whose output buffer fills, which large replies would do. Both
connections are lost and made together.
"""

import asyncio
import hashlib
import ssl
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from router.contract.shared import ValkeyTerms
from router.contract.stores import SharedUnusable, StoreUnusable
from router.loop.supervisor import supervise
from router.loop.tasks import spawn
from router.stores.valkey.wire import Away, Foreign, Refused, Wire, Word
from router.telemetry import events

_LASTS_SECONDS = 60.0
_OF_ONE_KEY = "WRONGTYPE"
"""Another program's value under our key. The server itself is usable."""


class Refusing(NamedTuple):
    reason: str
    since: float


class Refusals:
    """Reports each kind of refusal once a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.count = 0
        self._reported: dict[str, float] = {}
        self._now: Refusing | None = None
        self._until = 0.0

    def note(self, error: Refused) -> None:
        now, reason = self._clock(), error.reason
        self.count += 1
        if now >= self._reported.get(error.code, now):
            self._reported[error.code] = now + _LASTS_SECONDS
            events.store_refused(store="valkey", reason=reason, count=self.count)
        if error.code != _OF_ONE_KEY:
            before = self.current()
            self._now, self._until = Refusing(reason, now if before is None else before.since), now + _LASTS_SECONDS

    def current(self) -> Refusing | None:
        """The newest refusal, and since when; None a minute after the last one."""
        return self._now if self._clock() < self._until else None


_PORT = 6379
_TLS = ("rediss", "valkeys")


class Address(NamedTuple):
    host: str
    port: int
    path: str
    """Of a Unix socket; empty for a host."""
    is_tls: bool
    user: str
    password: str
    database: int

    @classmethod
    def read(cls, url: str) -> "Address":
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if parts.scheme == "unix":
            return cls("", 0, unquote(parts.path), is_tls=False, user=user, password=password, database=0)
        database = int(parts.path[1:] or 0)
        return cls(parts.hostname or "127.0.0.1", parts.port or _PORT, "", parts.scheme in _TLS, user, password, database)


_PROBE_SECONDS = 0.5
_LEAST_CONNECT_SECONDS = 1.0
_GATHER_SECONDS = 0.02
_LISTEN_SECONDS = 0.5
"""How often the idle pub/sub connection is checked."""
_CLOCK_SECONDS = 5.0
"""Clock difference from the server above which it is reported."""
_NOT_NOW = frozenset({"LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN"})
"""Error codes of a server that may be usable later."""
_REFUSALS = {
    "WRONGPASS": "the server refused the user name or the password",
    "NOAUTH": "the server needs a password",
    "NOPERM": "the server's user may not use the commands that are needed",
    "ERR": "the server is too old: Valkey, or Redis 6 or newer, is needed",
}


class LinkRefused(SharedUnusable):
    """The server is reachable but unusable until the operator changes something."""


class Script:
    """A Lua script, which the server runs atomically."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class Link:
    def __init__(self, terms: ValkeyTerms) -> None:
        self._terms, self.prefix = terms, terms.prefix
        self._wire: Wire | None = None
        self._listener: Wire | None = None
        """Opened only with subscriptions."""
        self._checking: asyncio.TimerHandle | None = None
        self._probing: asyncio.Task[None] | None = None
        self._scripts: list[Script] = []
        self._subscribers: dict[bytes, Callable[[bytes], None]] = {}
        self._on_up: list[Callable[[], None]] = []
        self._batch: list[tuple[Word, ...]] = []
        self._is_closed = False
        self.lost_at: float | None = None
        """None while connected."""
        self.version = ""
        self.blind: Counter[str] = Counter()
        """Operations done without the server, by kind."""
        self.refusals = Refusals()
        self._trips, self._seconds = 0, 0.0
        self.losses = 0

    @property
    def is_up(self) -> bool:
        return self._wire is not None

    @property
    def trips(self) -> int:
        return self._trips + (self._wire.trips if self._wire is not None else 0)

    @property
    def seconds(self) -> float:
        return self._seconds + (self._wire.seconds if self._wire is not None else 0.0)

    def key(self, *parts: str) -> str:
        return ":".join((self.prefix, *parts))

    def register(self, script: Script) -> Script:
        self._scripts.append(script)
        return script

    def subscribe(self, channel: str, take: Callable[[bytes], None]) -> None:
        """Receive every message, this router's own too."""
        self._subscribers[channel.encode()] = take

    def on_up(self, call: Callable[[], None]) -> None:
        self._on_up.append(call)

    def on_back(self, begin: Callable[[], None], restore: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call both on reconnection: messages were missed, and the server may have lost its data.

        `restore` writes back what this router knows, and ends if the server goes away again (`StoreUnusable`).
        """

        async def give_back() -> None:
            with suppress(StoreUnusable):
                await restore()

        def come_back() -> None:
            if self.losses:  # else it is the first connection
                begin()
                spawn(give_back(), name="restore a shared store")

        self._on_up.append(come_back)

    async def open(self) -> None:
        """Connect, retrying in the background.

        Raises `LinkRefused` where retries cannot help: a wrong password, or another kind of server.
        """
        try:
            await self.connect()
        except Away as error:
            self._note_lost(str(error))

    def ask(self, *words: Word) -> "asyncio.Future[Any]":
        """Send a command. Raises `Away` at once without a connection.

        The future may raise `Away`, or `Refused` for an error reply.
        """
        if self._wire is None:
            raise Away("there is no connection to the server")
        return self._wire.send(*words)

    def run(self, script: Script, keys: Sequence[str], *words: Word) -> "asyncio.Future[Any]":
        """Raises as `ask` does."""
        return self.ask("EVALSHA", script.digest, len(keys), *keys, *words)

    def send_soon(self, *words: Word) -> None:
        """Send a command within 20 ms, batched with others. Its reply is ignored."""
        if self._wire is None:
            return
        if not self._batch:
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._flush)
        self._batch.append(words)

    async def close(self) -> None:
        self._is_closed = True
        if self._probing is not None:
            self._probing.cancel()
        if self._wire is not None:
            self._flush()
            with suppress(StoreUnusable):
                await self._wire.send("PING")
            self._wire.end("the link is closed")  # and the pub/sub connection

    def _flush(self) -> None:
        soon, self._batch = self._batch, []
        for words in soon if self._wire is not None else ():
            if self._wire is not None:
                self._wire.send(*words).add_done_callback(ignore)

    async def connect(self) -> None:
        """Raises `Away` or `LinkRefused`."""
        seconds = max(self._terms.timeout_seconds, _LEAST_CONNECT_SECONDS)
        wire, listener = (Wire(seconds, self._deliver, lambda reason: None) for _ in range(2))
        try:
            async with asyncio.timeout(seconds):
                await self._reach(wire, listener)
        except BaseException as error:
            wire.end("not reached")
            listener.end("not reached")
            if isinstance(error, OSError):
                raise Away(f"the server cannot be reached ({type(error).__name__})") from error
            raise
        for each in (wire, listener):
            each.follow(self._terms.timeout_seconds, partial(self._lose, each), self.refusals.note)
        self._wire, self._listener, self.lost_at = wire, listener, None
        if self._subscribers:
            self._check_listener()
        for call in self._on_up:
            call()

    async def _reach(self, wire: Wire, listener: Wire) -> None:
        """Raises `OSError`, `Away` and `LinkRefused`."""
        try:
            await self._dial(wire)
            await self._prepare(wire)
            if self._subscribers:
                await self._dial(listener)
                await self._listen(listener)
        except Refused as error:
            if error.code in _NOT_NOW:
                raise Away(f"the server cannot be used now ({error.code})") from error
            raise LinkRefused(f"{_REFUSALS.get(error.code, 'the server refuses')} ({error.code})") from error
        except Foreign as error:
            raise LinkRefused(str(error)) from error
        if not wire.is_open or (self._subscribers and not listener.is_open):
            raise Away("the connection was closed")

    @property
    def _address(self) -> Address:
        return Address.read(self._terms.url.reveal())

    async def _dial(self, wire: Wire) -> None:
        address, loop = self._address, asyncio.get_running_loop()
        if address.path:
            await loop.create_unix_connection(lambda: wire, address.path)
        else:
            context = ssl.create_default_context() if address.is_tls else None
            await loop.create_connection(lambda: wire, address.host, address.port, ssl=context)

    async def _hello(self, wire: Wire) -> dict[bytes, Any]:
        """Raises `Refused` and `Away`, as do the others."""
        account = ("AUTH", self._address.user or "default", self._address.password) if self._address.password else ()
        hello = await wire.send("HELLO", 3, *account, "SETNAME", "tandem")
        if not isinstance(hello, dict):
            raise Foreign
        return hello

    async def _prepare(self, wire: Wire) -> None:
        hello = await self._hello(wire)
        self.version = f"{_read_text(hello.get(b'server'))} {_read_text(hello.get(b'version'))}"
        if hello.get(b"role", b"master") != b"master":
            raise Away("the server is a replica, which cannot be written to")
        if self._address.database:
            await wire.send("SELECT", self._address.database)
        await asyncio.gather(*(wire.send("SCRIPT", "LOAD", script.text) for script in self._scripts))
        ahead = _read_time(await wire.send("TIME")) - time.time()
        if abs(ahead) >= _CLOCK_SECONDS:
            events.clock_differs(store="valkey", seconds=round(ahead, 1))

    async def _listen(self, listener: Wire) -> None:
        await self._hello(listener)
        try:
            await asyncio.gather(*(listener.send("SUBSCRIBE", channel) for channel in self._subscribers))
        except Refused as error:
            if error.code != "NOPERM":
                raise
            raise LinkRefused(f"the server's user may not use the channels: give it &{self.prefix}:* (NOPERM)") from error

    def _check_listener(self) -> None:
        """A late reply ends the connection, and so the link."""
        if self._listener is not None:
            self._listener.send("PING").add_done_callback(ignore)
            self._checking = asyncio.get_running_loop().call_later(_LISTEN_SECONDS, self._check_listener)

    def _lose(self, wire: Wire, reason: str) -> None:
        if self._wire is None or self._listener is None or wire not in (self._wire, self._listener):
            return
        ended = (self._wire, self._listener)
        self._trips, self._seconds = self.trips, self.seconds
        self._wire, self._listener, self._batch = None, None, []
        if self._checking is not None:
            self._checking.cancel()
        for each in ended:
            each.end(reason)
        if not self._is_closed:
            self._note_lost(reason)

    def _note_lost(self, reason: str) -> None:
        self.losses += 1
        self.lost_at = time.monotonic()
        events.store_lost(store="valkey", reason=reason)
        self._probing = supervise(self._probe, name="probe Valkey")

    async def _probe(self) -> None:
        began, refused = time.monotonic(), ""
        while not self._is_closed:
            await asyncio.sleep(_PROBE_SECONDS)
            try:
                await self.connect()
            except Away:
                continue
            except LinkRefused as error:
                if str(error) != refused:
                    events.store_lost(store="valkey", reason=(refused := str(error)))
                continue
            events.store_back(store="valkey", seconds=round(time.monotonic() - began, 1))
            return

    def _deliver(self, channel: bytes, message: bytes) -> None:
        if (take := self._subscribers.get(channel)) is not None:
            take(message)


def _read_text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else "?"


def _read_time(answer: Any) -> float:
    """Raises `Foreign` for any other answer."""
    match answer:
        case [bytes(seconds), bytes(microseconds)] if seconds.isdigit() and microseconds.isdigit():
            return int(seconds) + int(microseconds) / 1e6
        case _:
            raise Foreign


def ignore(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()
