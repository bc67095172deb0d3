"""The screen of a group: a process that has the terminal, and is told by the parent what it and its workers see.

The parent forks workers, so it has no threads, and a paused terminal must not hold it up: both are this process's.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from time import time

import msgspec
from msgspec import Raw, Struct

from router.cli.serving import follow_terminal
from router.cli.workers.messages import write_body
from router.screen.around import Facts
from router.screen.screen import Screen
from router.screen.seen import Noted, Rejected, Seen

_MAX_UNSENT_BYTES = 1 << 20
"""What waits for a screen that does not read. More is dropped: the ledger has it."""
_MAX_LINE_BYTES = 64 << 20
_CLOSE_SECONDS = 1.0
_ENDS_AT_CTRL_C = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Told(Struct, omit_defaults=True):
    """What a worker saw; 0 is the parent."""

    worker: int = 0
    seen: list[Seen] = []
    facts: Facts | None = None
    """The group serves."""
    has_ended: bool = False


class _Passed(Struct):
    """The same for a worker, whose words are not read on the way."""

    worker: int
    seen: Raw


_decode = msgspec.json.Decoder(Told).decode


class ScreenProcess:
    def __init__(self, open_screen: Callable[[], Screen]) -> None:
        self._channel, theirs = socket.socketpair()
        self._pid = os.fork()
        if not self._pid:
            self._channel.close()
            _be_screen(open_screen, theirs)
        theirs.close()
        self._channel.setblocking(False)
        self._unsent = bytearray()

    def note(self, text: str, level: str = "") -> None:
        self._send(Told(seen=[Noted(text, level, time())]))

    def reject(self, status: int, message: str) -> None:
        self._send(Told(seen=[Rejected(time(), status, message)]))

    def open(self, facts: Facts) -> None:
        self._send(Told(facts=facts))

    def show(self, worker: int, seen: Raw) -> None:
        self._send(_Passed(worker, seen))

    def leave(self, worker: int) -> None:
        self._send(Told(worker, has_ended=True))

    def release(self) -> None:
        """In a worker: leave it to the parent."""
        self._channel.close()

    def close(self) -> None:
        """Wait until the last lines are drawn."""
        with suppress(OSError):
            self._channel.settimeout(_CLOSE_SECONDS)
            self._channel.sendall(self._unsent)
        self._channel.close()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _send(self, told: Told | _Passed) -> None:
        if len(self._unsent) < _MAX_UNSENT_BYTES:
            self._unsent += write_body(told) + b"\n"
        with suppress(OSError):  # it is busy, or ended
            while self._unsent:
                del self._unsent[: self._channel.send(self._unsent)]


def _be_screen(open_screen: Callable[[], Screen], channel: socket.socket) -> None:
    try:
        for number in _ENDS_AT_CTRL_C:  # it ends after the parent, and draws its end
            signal.signal(number, signal.SIG_IGN)
        asyncio.run(_draw(open_screen(), channel))
    finally:
        os._exit(0)


async def _draw(screen: Screen, channel: socket.socket) -> None:
    loop, is_open = asyncio.get_running_loop(), False
    screen.start(loop)
    follow_terminal(screen, loop)
    reader, writer = await asyncio.open_connection(sock=channel, limit=_MAX_LINE_BYTES)
    while line := await reader.readline():
        told = _decode(line)
        if told.facts is not None:
            screen.open(loop, told.facts)
            is_open = True
        for seen in told.seen:
            screen.take(seen, told.worker)
        if told.has_ended:
            screen.leave(told.worker)
        screen.wake()
    writer.close()
    screen.close(*(() if is_open else ("",)))
