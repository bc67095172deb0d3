"""A worker's connection to its parent."""

import asyncio
import itertools
import socket
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from router.cli.workers.messages import EndReport, Kind, Message, Taken, Topic, read_message, write_body, write_message
from router.config.faults import ConfigError
from router.contract.keys import NewKey
from router.contract.request import JsonObject
from router.loop.tasks import spawn
from router.wiring.built import Built
from router.wiring.key_watch import KeyWatch
from router.wiring.panels import build_figures, build_looks
from router.wiring.reloader import Reloader

if TYPE_CHECKING:
    from router.edge.control.metrics import Figures
    from router.screen.seen import Watch

Answers = dict[Topic, Callable[[], Awaitable[bytes]]]
_MAX_LINE_BYTES = 64 << 20
_ASK_SECONDS = {Topic.RELOAD: 60.0, Topic.FIGURES: 5.0, Topic.KEYS: 15.0}
"""Longer than the parent waits for workers."""
_SEEN_SECONDS = 0.05
"""How long what is seen for the screen is gathered."""
_MAX_UNSENT_BYTES = 1 << 20


class Reporting:
    def __init__(self, built: Built) -> None:
        self._built = built
        self._figures: Figures | None = None

    async def answer(self) -> bytes:
        from router.edge.control.worker_figures import pack  # only for scrapes

        self._figures = self._figures or build_figures(self._built, build_looks(self._built))
        found = await self._figures.read()
        return pack(*(found or ({}, {})))


class ParentLink:
    def __init__(self, number: int, count: int, own_key: NewKey, channel: socket.socket, *, was_ready: bool = False) -> None:
        """`was_ready`: all workers have served before, so that a replacement is ready at once."""
        self.number, self.own_key = number, own_key
        self._count, self._serving = count, 0
        self._was_ready, self._is_stopping = was_ready, False
        self._channel = channel
        self._writer: asyncio.StreamWriter | None = None
        self._asked: dict[int, asyncio.Future[Raw]] = {}
        self._numbers = itertools.count(1)
        self.is_orphaned = False
        self.watch: Watch | None = None
        """What the group's screen is shown of this worker; None without a screen."""
        self._tick: asyncio.TimerHandle | None = None

    def report_end(self, code: int, text: str) -> None:
        """Report why this worker ends unasked."""
        self._channel.setblocking(True)
        with suppress(OSError):
            self._channel.sendall(write_message(Kind.ENDED, body=write_body(EndReport(code, text))))

    async def open(self, built: Built, stop: Callable[[], None], hurry: Callable[[], None]) -> None:
        """Listen to the parent. `stop` is called when it says so or has ended, `hurry` when it says so again.

        Signals do not count: they may reach parent and workers alike.
        """
        answers: Answers = {Topic.FIGURES: Reporting(built).answer, Topic.ALIVE: _be_alive}
        if built.reloader is not None:
            answers[Topic.RELOAD] = partial(_reload, built.reloader)
        if built.key_watch is not None:
            answers[Topic.KEYS] = partial(_look_at_keys, built.key_watch)
        reader, self._writer = await asyncio.open_connection(sock=self._channel.dup(), limit=_MAX_LINE_BYTES)
        if self.watch is not None:
            self.watch.start(asyncio.get_running_loop(), self._see)
        spawn(self._listen(reader, answers, stop, hurry), name="listen to the parent")

    def _see(self) -> None:
        if self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(_SEEN_SECONDS, self.send_seen)

    def send_seen(self) -> None:
        """Tell the screen what was seen, unless the parent is too busy to take it."""
        self._tick = None
        if self.watch is None or self._writer is None:
            return
        seen = self.watch.collect()
        if seen and self._writer.transport.get_write_buffer_size() < _MAX_UNSENT_BYTES:
            self._send(write_message(Kind.SEEN, body=write_body(seen)))

    def note_ready(self) -> None:
        self._send(write_message(Kind.READY))

    @property
    def is_ready(self) -> bool:
        return self._was_ready

    def describe(self) -> JsonObject:
        return {"workers": self._count, "serving": self._serving}

    async def gather_figures(self) -> Mapping[str, bytes]:
        return {worker: bytes(body) for worker, body in (await self._ask(Topic.FIGURES)).items()}

    async def look_at_keys(self) -> JsonObject:
        ended: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for body in (await self._ask(Topic.KEYS)).values():
            for key, counted in msgspec.json.decode(body, type=dict[str, dict[str, int]]).items():
                ended[key].update(counted)
        return {key: {**counted} for key, counted in ended.items()}

    async def reload(self) -> JsonObject:
        answers = await self._ask(Topic.RELOAD)
        told = [msgspec.json.decode(body, type=Taken).get() for body in answers.values()]
        return told[0] if told else {}

    async def _ask(self, topic: Topic) -> dict[str, Raw]:
        number = next(self._numbers)
        future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        self._send(write_message(Kind.ASK, topic, number))
        try:
            async with asyncio.timeout(_ASK_SECONDS[topic]):
                return msgspec.json.decode(await future, type=dict[str, Raw])
        except TimeoutError:
            return {}
        finally:
            del self._asked[number]

    async def _listen(
        self, reader: asyncio.StreamReader, answers: Answers, stop: Callable[[], None], hurry: Callable[[], None]
    ) -> None:
        with suppress(OSError, ValueError, msgspec.MsgspecError):  # the parent is gone or no longer ours
            while line := await reader.readline():
                self._take(read_message(line), answers, hurry if self._is_stopping else stop)
        self.is_orphaned = True
        if self._writer is not None:
            self._writer.close()
        if not self._is_stopping:
            stop()

    def _take(self, message: Message, answers: Answers, stop: Callable[[], None]) -> None:
        if message.kind is Kind.QUESTION and message.topic is not None:
            spawn(self._answer(message, answers[message.topic]), name=f"answer {message.topic}")
        elif message.kind is Kind.OUTCOME and (future := self._asked.get(message.number)) is not None:
            if not future.done():
                future.set_result(message.body)
        elif message.kind is Kind.GROUP:
            self._serving = message.number
            self._was_ready = self._was_ready or self._serving == self._count
        elif message.kind is Kind.STOP:
            self._is_stopping = True
            stop()

    async def _answer(self, message: Message, answer: Callable[[], Awaitable[bytes]]) -> None:
        self._send(write_message(Kind.ANSWER, message.topic, message.number, await answer()))

    def _send(self, message: bytes) -> None:
        if self._writer is not None:
            self._writer.write(message)


async def _be_alive() -> bytes:
    return b"null"


async def _look_at_keys(watch: KeyWatch) -> bytes:
    return write_body(await watch.answer())


async def _reload(reloader: Reloader) -> bytes:
    try:
        return write_body(Taken(Raw(write_body(await reloader.answer()))))
    except ConfigError as error:
        return write_body(Taken.refused(error))
