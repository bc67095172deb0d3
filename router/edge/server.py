"""Listening: the socket, the event loop, and an orderly stop."""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn

from router.edge.admission import Admission
from router.edge.http.asgi import App
from router.edge.http.control_connection import ControlConnection
from router.edge.http.create_connection import CreateConnection
from router.edge.listener import Listener
from router.edge.shedding import MemoryWatch

_TICKS_OF_A_LOOK = 5
"""uvicorn ticks ten times a second; memory is looked at twice."""


class CannotListen(Exception):
    """The address cannot be bound. The message says why and what to do."""


def check_host(host: str, *, needs_keys: bool = False) -> None:
    """Refuse any address but loopback where no caller keys protect it."""
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
    """A listening socket; on loopback, unless callers need a key. Raises `CannotListen`."""
    check_host(host, needs_keys=needs_keys)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        hint = (
            "another program uses this port; try --port 4001, or set server.port"
            if error.errno in (98, 48)
            else "try --port 4001, or set server.port"
        )
        raise CannotListen(f"cannot listen on {host}:{port}: {error.strerror}\n  hint: {hint}") from error
    listener.listen(2048)
    listener.setblocking(False)
    return listener


class Server(uvicorn.Server):
    """uvicorn's server, with its own logging off and a word when it is ready."""

    def __init__(
        self,
        admission: Admission,
        app: App,
        *,
        drain_seconds: float,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        super().__init__(
            uvicorn.Config(
                app,
                http=self._accept,  # type: ignore[arg-type]  # any callable that makes a protocol will do
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
            )
        )
        self._admission, self._outbox = admission, admission.speedups.new_outbox()
        self._memory = MemoryWatch(admission)
        self._drain_seconds = drain_seconds
        self._on_ready, self._on_stop = on_ready, on_stop

    def _accept(self, **given: Any) -> asyncio.Protocol:
        """A protocol for a new connection: ours, which hands over to uvicorn's own what is not a create call."""
        admission = self._admission

        def make_first() -> asyncio.Protocol:
            return CreateConnection(admission, given["server_state"].connections, make_successor, self._outbox)

        def make_successor(head_seconds: float) -> asyncio.Protocol:
            return ControlConnection(admission, head_seconds, make_first, **given)

        return make_first()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_OF_A_LOOK == 0:
            await self._memory.look()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let what is under way finish within its time. What runs on after that is the house's to stop, with a reason."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(super().shutdown(sockets), self._drain_seconds)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT, SIGTERM or SIGHUP, at once on a second one; then return: the ledger is flushed, and we exit 0."""
        loop, numbers = asyncio.get_running_loop(), [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` is there to outlive its terminal
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        if not self.should_exit:
            self._on_stop()
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, by a listener of our own instead of the event loop's: it knows limits."""
        config, admission = self.config, self._admission

        def make_protocol() -> asyncio.Protocol:
            return self._accept(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        self.servers = [
            Listener(  # type: ignore[misc]  # uvicorn closes them, and asks nothing else of them
                listening,
                make_protocol,
                lambda: admission.limits.max_connections_per_address,
                tls=config.ssl,
                handshake_seconds=lambda: admission.limits.header_timeout_seconds,
            )
            for listening in sockets or ()
        ]
        self.started = True
        self._on_ready()


def run(main: Callable[[], "asyncio.Future[None] | object"]) -> None:
    """Run a coroutine function on uvloop where it is installed, else on asyncio's own loop."""
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop  # optional: an extra, and absent on some platforms

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())  # type: ignore[arg-type]  # a coroutine function's result
