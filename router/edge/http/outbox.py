"""Answers that are whole at about the same time, on their way to their callers."""

import asyncio


class Outbox:
    """Sends them one after another, when all that came in the same turn of the loop are read.

    To send is the kernel's work, which takes the processor's caches from ours: a tenth of a request, with sixteen callers.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.Transport, bytes]] = []

    def put(self, transport: asyncio.Transport, data: bytes) -> None:
        """Send this, and not before what was put here earlier."""
        self._waiting.append((transport, data))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self.send)

    def send(self) -> None:
        """Send all."""
        waiting, self._waiting = self._waiting, []
        for transport, data in waiting:
            try:  # noqa: SIM105  which costs an answer nothing, as a `with` would
                transport.write(data)
            except RuntimeError:
                pass  # uvloop has closed it, and tells the connection a little later that the caller is gone
