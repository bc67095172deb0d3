"""A router inside a command, for `tandem run` and `tandem demo`."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

from router.edge.server import Server
from router.loop.tasks import spawn
from router.wiring.built import Built
from router.wiring.panels import build_edge


class _QuietServer(Server):
    """Leaves signals to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(built: Built, listener: socket.socket, drain_seconds: float) -> AsyncIterator[None]:
    """Serve on this socket until the block ends. The house stays open."""
    server: Server
    ready = asyncio.Event()
    admission, app = build_edge(built, lambda: not server.should_exit)
    server = _QuietServer(admission, app, drain_seconds=drain_seconds, on_ready=ready.set)
    task = spawn(server.serve(sockets=[listener]), name="serve")
    try:
        await ready.wait()
        built.warm()
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
