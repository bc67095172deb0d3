"""The router's server for tests: it stops when it is told to."""

import asyncio
import socket

from router.edge.server import Server

_MAX_WAIT_SECONDS = 0.1
_LOOK_SECONDS = 0.002


class PromptServer(Server):
    """A server without uvicorn's two waits of a tenth of a second, which every test that starts one would pay.

    uvicorn looks for the word to stop every 0.1 s, and gives its connections 0.1 s to close. Here the word is an event, and
    the second wait ends as soon as the last connection and the last task are gone. What users run is tested as a process of
    its own (`tests/router/cli/test_serve.py`).
    """

    _stopping: asyncio.Event

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping = asyncio.Event()
        await super().startup(sockets)

    def stop(self) -> None:
        """Stop now, as a second signal would."""
        self.should_exit = self.force_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in list(self.server_state.connections):
            for _ in range(2):  # the second time, it does not wait for a request that may be about to come
                connection.shutdown()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _MAX_WAIT_SECONDS
        while (self.server_state.connections or self.server_state.tasks) and loop.time() < deadline:  # noqa: ASYNC110  plain sets
            await asyncio.sleep(_LOOK_SECONDS)
