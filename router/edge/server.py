"""The listening socket, the event loop, and an orderly stop."""

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from email.utils import formatdate
from types import FrameType
from typing import Any, cast

import uvicorn

from router.edge.admission import Admission
from router.edge.http.asgi import App
from router.edge.http.control_connection import ControlConnection
from router.edge.http.create_connection import CreateConnection
from router.edge.http.sink import forget_date
from router.edge.listener import BACKLOG, Listener, Place
from router.edge.shedding import MemoryWatch
from router.edge.tls import TlsFiles
from router.edge.websocket.connection import SocketConnection
from router.telemetry import events

_FIRST_PASSED = 3
"""Where systemd puts the sockets that it passes."""
_LOOK_SECONDS = 0.05
_ACCEPT_SECONDS = 1.0
_KEPT_SECONDS = 0.5
"""How long a balancer may still use kept connections: it notices the stop when a new one is refused."""
_CLOSING_SECONDS = 1.0
"""For callers to notice a closed connection: over TLS they confirm it, some only on their next use."""
_TICKS_OF_A_LOOK = 5
"""uvicorn ticks ten times a second; memory is measured twice."""
_TICKS_OF_A_SECOND = 10


class CannotListen(Exception):
    """The message has the cause and a hint."""


def check_host(host: str, *, needs_keys: bool = False) -> None:
    """Allow only loopback unless callers need keys."""
    if needs_keys:
        return
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise CannotListen(
            f"server.host: {host} is not a loopback address, and without caller keys anyone who reaches it could spend yours\n"
            "  hint: tandem keys add NAME makes a key; with keys: in the config any address may be used"
        )


def bind(host: str, port: int, *, needs_keys: bool = False) -> socket.socket:
    """A listening socket, on loopback unless callers need keys. Raises `CannotListen`."""
    check_host(host, needs_keys=needs_keys)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)  # if two processes bound it together, only one can listen
    except OSError as error:
        listener.close()
        hint = (
            "another program uses this port; try --port 4001, or set server.port"
            if error.errno in (98, 48)
            else "try --port 4001, or set server.port"
        )
        raise CannotListen(f"cannot listen on {host}:{port}: {error.strerror}\n  hint: {hint}") from error
    listener.setblocking(False)
    return listener


def open_listeners(host: str, port: int, count: int, *, needs_keys: bool = False) -> list[socket.socket]:
    """The socket that a service manager passes, or our own: one for each worker, or one for all. Raises `CannotListen`."""
    if (passed := _take_passed(needs_keys=needs_keys)) is not None:
        with contextlib.suppress(OSError):
            named = [found[4][:2] for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
            if (at := passed.getsockname()[:2]) not in named:
                where = "{}:{}, and the config names {}:{}".format(*at, host, port)
                events.config_warned(warning=f"the service listens on {where}; tandem service install changes the service")
        return [passed]
    return bind_several(host, port, count, needs_keys=needs_keys) if count > 1 else [bind(host, port, needs_keys=needs_keys)]


def _take_passed(*, needs_keys: bool) -> socket.socket | None:
    """The listening socket of systemd's `LISTEN_FDS`, on loopback unless callers need keys. Raises `CannotListen`."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    if (count := os.environ.get("LISTEN_FDS", "")) != "1":
        raise CannotListen(f"the service passes {count or 'no'} sockets\n  hint: one ListenStream= is supported")
    with contextlib.ExitStack() as refused:
        passed = refused.enter_context(socket.socket(fileno=_FIRST_PASSED))
        if passed.family == socket.AF_UNIX or not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            hint = "ListenStream=127.0.0.1:4000, without Accept="
            raise CannotListen(f"the socket that the service passes is not one that listens for TCP\n  hint: {hint}")
        check_host(passed.getsockname()[0], needs_keys=needs_keys)
        passed.set_inheritable(False)  # agents and other children must not hold the address
        passed.setblocking(False)
        refused.pop_all()
    return passed


def can_balance() -> bool:
    """Whether sockets with one address share connections. macOS gives all of them to the last one."""
    return sys.platform == "linux"


def bind_several(host: str, port: int, count: int, *, needs_keys: bool = False) -> list[socket.socket]:
    """Sockets with one address, or one shared where the system cannot balance. Raises `CannotListen`."""
    first = bind(host, port, needs_keys=needs_keys)
    if not can_balance():
        return [first]
    # The first is bound without SO_REUSEPORT to learn whether the address is free: with it, another router of the user could
    # share the address.
    family, address = first.family, first.getsockname()
    first.close()
    listeners: list[socket.socket] = []
    try:
        for _ in range(count):
            listeners.append(listener := socket.socket(family, socket.SOCK_STREAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
    except OSError as error:  # another program was faster
        for listener in listeners:
            listener.close()
        raise CannotListen(f"cannot listen on {host}:{address[1]}: {error.strerror}\n  hint: try --port 4001") from error
    return listeners


class Server(uvicorn.Server):
    """uvicorn's server, without its logging, with a staged stop and a call when ready."""

    def __init__(
        self,
        admission: Admission,
        app: App,
        *,
        drain_seconds: float,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None] = lambda: None,
        on_hangup: Callable[[], None] | None = None,
        stop_listening_after_seconds: float = 0.0,
        tls: TlsFiles | None = None,
        stops_on: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM),
    ) -> None:
        """`on_hangup` handles SIGHUP, which otherwise stops the server."""
        for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        super().__init__(
            uvicorn.Config(
                app,
                http=ControlConnection,  # keeps uvicorn from loading its own
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # anyone can forge them, and wrong keys are counted by address
            )
        )
        self._admission, self._outbox = admission, admission.speedups.new_outbox()
        self._memory = MemoryWatch(admission)
        self._drain_seconds, self._listens_seconds = drain_seconds, stop_listening_after_seconds
        self._on_ready, self._on_stop, self._on_hangup = on_ready, on_stop, on_hangup
        self._tls, self._stops_on = tls, stops_on
        self._is_stopping = False

    def _make_first(self, place: Place) -> asyncio.Protocol:
        """Our protocol for a new connection. It hands what is not a create call to uvicorn's."""
        first = CreateConnection(self._admission, cast("Any", self._connections), place, self._make_successor, self._outbox)
        if self._is_stopping:
            first.say_close()
        return first

    def _make_successor(self, place: Place, head_seconds: float) -> asyncio.Protocol:
        given = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        return ControlConnection(self._admission, place, head_seconds, self._make_first, **given)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with our own listener, which enforces limits."""
        admission = self._admission
        listeners = [
            Listener(
                listening,
                self._make_first,
                lambda: admission.limits.max_connections_per_address,
                tls=self._tls.context if self._tls is not None else None,
                handshake_seconds=lambda: admission.limits.header_timeout_seconds,
                closing_seconds=lambda: admission.limits.write_idle_timeout_seconds,
            )
            for listening in sockets or ()
        ]
        for listener in listeners:
            await listener.start()
        self.servers = cast("Any", listeners)  # closed by us; uvicorn never uses them
        self.started = True
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_OF_A_LOOK == 0:
            await self._memory.look()
        if counter % _TICKS_OF_A_SECOND == 0:
            forget_date()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen a while longer, then let requests finish within the drain time. A second signal ends both waits."""
        self._is_stopping = True
        self._head_last_answers()
        for connection in list(self._connections):
            if isinstance(connection, CreateConnection):
                connection.say_close()
        await self._wait(lambda: False, self._listens_seconds)
        await self._accept_waiting()
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        if self._listens_seconds:
            await self._wait(lambda: False, _KEPT_SECONDS)
        for _ in range(2):  # let the loop read what has arrived: a connection with a request is not idle
            await asyncio.sleep(0)
        for connection in list(self._connections):
            connection.shutdown()
        if await self._wait(self._is_drained, self._drain_seconds):
            await self._wait(lambda: not self._connections, _CLOSING_SECONDS)
        else:
            for connection in list(self._connections):
                connection.shutdown()

    def _head_last_answers(self) -> None:
        """Ask each caller to reconnect, to another router. Nothing ticks any more, so the date is kept here."""
        forget_date()
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode()), (b"connection", b"close")]

    async def _accept_waiting(self) -> None:
        """Accept callers that have connected, for a bounded time."""
        loop, listeners = asyncio.get_running_loop(), cast("list[Listener]", self.servers)
        deadline = loop.time() + _ACCEPT_SECONDS
        while any(listener.has_waiting for listener in listeners) and loop.time() < deadline:  # noqa: ASYNC110  the system
            await asyncio.sleep(0)

    def _is_drained(self) -> bool:
        return not self.server_state.tasks and all(connection.is_done for connection in self._connections)

    async def _wait(self, is_over: Callable[[], bool], seconds: float) -> bool:
        """Wait until `is_over`, a timeout or a second signal. Returns whether it is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self.force_exit and not is_over() and (left := deadline - loop.time()) > 0:
            self._head_last_answers()
            await asyncio.sleep(min(left, _LOOK_SECONDS))
        return is_over()

    @property
    def _connections(self) -> "set[CreateConnection | ControlConnection | SocketConnection]":
        return cast("Any", self.server_state.connections)  # type: ignore[no-any-return]  # typed for uvicorn's own

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT, SIGTERM or SIGHUP (at once on a second one), then return, to flush the ledger and exit 0."""
        loop, numbers = asyncio.get_running_loop(), [*self._stops_on]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # respect `nohup`
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        if self._on_hangup is not None and signal.SIGHUP in numbers:
            loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        try:
            yield
        finally:
            _ignore(loop, numbers)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        if not self.should_exit:
            self._on_stop()
        self.should_exit = True


def _ignore(loop: asyncio.AbstractEventLoop, numbers: list[signal.Signals]) -> None:
    """Ignore further signals while the ledger is written."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # each would have its default effect in between
    for number in numbers:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run(main: Callable[[], "asyncio.Future[None] | object"]) -> None:
    """Run a coroutine function on uvloop if installed, else on asyncio's loop."""
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop  # optional extra, missing on some platforms

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())  # type: ignore[arg-type]  # a coroutine
