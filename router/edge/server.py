"""The listening socket, the event loop, and an orderly stop."""

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from router.edge.admission import Admission
from router.edge.http.asgi import App
from router.edge.http.create_connection import CreateConnection
from router.edge.http.sink import forget_date
from router.edge.listener import BACKLOG, Listener, Place
from router.edge.shedding import MemoryWatch
from router.edge.tls import TlsFiles
from router.telemetry import events

if TYPE_CHECKING:
    from router.edge.http.control_connection import ControlConnections

_FIRST_PASSED = 3
"""Where systemd puts the sockets that it passes."""
_LOOK_SECONDS = 0.05
_ACCEPT_SECONDS = 1.0
_KEPT_SECONDS = 0.5
"""How long a balancer may still use kept connections: it notices the stop when a new one is refused."""
_CLOSING_SECONDS = 1.0
"""For callers to notice a closed connection: over TLS they confirm it, some only on their next use."""
_TICK_SECONDS = 0.5
"""Between measurements of memory, and of the date's seconds."""


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


def open_listener(host: str, port: int, *, needs_keys: bool = False) -> socket.socket:
    """The socket that a service manager passes, or our own. Raises `CannotListen`."""
    if (passed := _take_passed(needs_keys=needs_keys)) is not None:
        with contextlib.suppress(OSError):
            named = [found[4][:2] for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
            if (at := passed.getsockname()[:2]) not in named:
                where = "{}:{}, and the config names {}:{}".format(*at, host, port)
                events.config_warned(warning=f"the service listens on {where}; tandem service install changes the service")
        return passed
    return bind(host, port, needs_keys=needs_keys)


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


class Server:
    """Listens, ticks, and stops in stages."""

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
    ) -> None:
        """`on_hangup` handles SIGHUP, which otherwise stops the server."""
        self._admission, self._app, self._outbox = admission, app, admission.speedups.new_outbox()
        self._memory = MemoryWatch(admission)
        self._drain_seconds, self._listens_seconds = drain_seconds, stop_listening_after_seconds
        self._on_ready, self._on_stop, self._on_hangup = on_ready, on_stop, on_hangup
        self._tls = tls
        self._asked, self._is_pressed = asyncio.Event(), False
        self.listeners: list[Listener] = []
        self.connections: set[Any] = set()
        """Of create calls, of sockets, and those that were handed over."""
        self._control: ControlConnections | None = None

    @property
    def is_stopping(self) -> bool:
        return self._asked.is_set()

    def stop(self) -> None:
        """Stop in stages, the first of which asks callers to reconnect; when called again, at once."""
        if self.is_stopping:
            self._is_pressed = True
            return
        self._asked.set()
        self._on_stop()
        self._forget_date()
        for connection in self.connections:
            if isinstance(connection, CreateConnection):
                connection.say_close()

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Serve until stopped."""
        await self._listen(sockets)
        await self._tick()
        await self._shut_down(sockets)

    def _make_first(self, place: Place) -> asyncio.Protocol:
        """The protocol for a new connection. It hands over what is not a create call."""
        first = CreateConnection(self._admission, self.connections, place, self._make_successor, self._outbox)
        if self.is_stopping:
            first.say_close()
        return first

    def _make_successor(self, place: Place, head_seconds: float) -> asyncio.Protocol:
        if self._control is None:
            from router.edge.http.control_connection import ControlConnections  # uvicorn: 2 MB, and not for create calls

            self._control = ControlConnections(self._admission, self._app, self._make_first, self.connections)
            self._control.set_date(closes=self.is_stopping)
        return self._control.make(place, head_seconds)

    async def _listen(self, sockets: Sequence[socket.socket]) -> None:
        admission = self._admission
        self.listeners = [
            Listener(
                listening,
                self._make_first,
                lambda: admission.limits.max_connections_per_address,
                tls=self._tls.context if self._tls is not None else None,
                handshake_seconds=lambda: admission.limits.header_timeout_seconds,
                closing_seconds=lambda: admission.limits.write_idle_timeout_seconds,
            )
            for listening in sockets
        ]
        for listener in self.listeners:
            await listener.start()
        self._on_ready()

    async def _tick(self) -> None:
        while not self.is_stopping:
            await self._memory.look()
            self._forget_date()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), _TICK_SECONDS)

    def _forget_date(self) -> None:
        forget_date()
        if self._control is not None:
            self._control.set_date(closes=self.is_stopping)

    async def _shut_down(self, sockets: Sequence[socket.socket]) -> None:
        """Listen a while longer, then let requests finish within the drain time. A second signal ends both waits."""
        await self._wait(lambda: False, self._listens_seconds)
        await self._accept_waiting()
        for listener in self.listeners:
            listener.close()
        for listening in sockets:
            listening.close()
        if self._listens_seconds:
            await self._wait(lambda: False, _KEPT_SECONDS)
        for _ in range(2):  # let the loop read what has arrived: a connection with a request is not idle
            await asyncio.sleep(0)
        for connection in list(self.connections):
            connection.shutdown()
        if await self._wait(self._is_drained, self._drain_seconds):
            await self._wait(lambda: not self.connections, _CLOSING_SECONDS)
        else:
            for connection in list(self.connections):
                connection.shutdown()

    async def _accept_waiting(self) -> None:
        """Accept callers that have connected, for a bounded time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _ACCEPT_SECONDS
        while any(listener.has_waiting for listener in self.listeners) and loop.time() < deadline:  # noqa: ASYNC110  the system has no event for it
            await asyncio.sleep(0)

    def _is_drained(self) -> bool:
        if self._control is not None and self._control.is_busy:
            return False
        return all(connection.is_done for connection in self.connections)

    async def _wait(self, is_over: Callable[[], bool], seconds: float) -> bool:
        """Wait until `is_over`, a timeout or a second signal. Returns whether it is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self._is_pressed and not is_over() and (left := deadline - loop.time()) > 0:
            self._forget_date()
            await asyncio.sleep(min(left, _LOOK_SECONDS))
        return is_over()

    @contextlib.contextmanager
    def hear_signals(self) -> Iterator[None]:
        """Stop on SIGINT, SIGTERM or SIGHUP (at once on a second one), then return, to flush the ledger and exit 0."""
        loop, numbers = asyncio.get_running_loop(), [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # respect `nohup`
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self.stop)
        if self._on_hangup is not None and signal.SIGHUP in numbers:
            loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        try:
            yield
        finally:
            _ignore(loop, numbers)


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
