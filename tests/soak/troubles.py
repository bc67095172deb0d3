"""What goes wrong in a soak, one thing every two seconds, and the upstream that breaks as it is asked to."""

import asyncio
import contextlib
import itertools
import struct
from collections.abc import Awaitable, Callable

from tests.soak.callers import PATHS, Callers, ask_in
from tests.soak.faulty import BAD_BODIES, FAULTS, break_as_asked
from tests.tools.http import call, request_bytes
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, write_stream, write_whole
from tests.tools.upstream import CHAT_STREAM_HEAD, Seen, Upstream, Wire, answer_json

EVERY_SECONDS = 2.0
_DIALECTS = {path: dialect for dialect, path in PATHS.items()}
_LONG = Speech("some more words " * 100_000)
_SLOW = Speech("some more words " * 20)
_IDLE_AT_ONCE = 300
"""More than one address may have."""


class FaultyUpstream(Upstream):
    """Breaks as a prompt says, answers some slowly or at length, and can be cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = [self._answer]
        self._wires: set[Wire] = set()

    async def _answer(self, wire: Wire, seen: Seen) -> None:
        self.seen.clear()  # nobody reads it, and it would grow
        self._wires.add(wire)
        try:
            if b"soak:slow" in seen.body:
                await self._speak(wire, seen, _SLOW, pause=0.3)
            elif b"soak:long" in seen.body:
                await self._speak(wire, seen, _LONG)
            else:
                await break_as_asked(wire, seen)
        finally:
            self._wires.discard(wire)

    async def _speak(self, wire: Wire, seen: Seen, speech: Speech, pause: float = 0.0) -> None:
        dialect = _DIALECTS[seen.path.partition("?")[0]]
        await asyncio.sleep(pause)
        if not seen.json.get("stream"):
            await answer_json(write_whole(dialect, speech))(wire, seen)
            return
        await wire.send(CHAT_STREAM_HEAD)
        for frame in write_stream(dialect, speech):
            await wire.chunk(frame)
            await asyncio.sleep(pause)
        await wire.end_chunks()

    def cut_all(self) -> None:
        """Reset every connection on which something is asked just now."""
        for wire in self._wires:
            wire.reset()


class Troubles:
    """All kinds of trouble, in turn."""

    def __init__(self, port: int, callers: Callers, upstream: FaultyUpstream, admin_key: str) -> None:
        self._port, self._callers, self._account, self._upstream = port, callers, callers.account, upstream
        self._admin = {"authorization": f"Bearer {admin_key}"}
        self._faults, self._dialects = itertools.cycle(FAULTS), itertools.cycle(PATHS)
        self._kinds: tuple[Callable[[], Awaitable[None]], ...] = (
            self._break_an_answer,
            self._cut_the_upstream,
            self._break_an_answer,
            self._send_wrong_keys,
            self._break_an_answer,
            self._read_slowly,
            self._break_an_answer,
            self._send_bad_bodies,
            self._break_an_answer,
            self._send_half_a_request,
            self._break_an_answer,
            self._break_sockets,
            self._break_an_answer,
            self._reload,
            self._break_an_answer,
            self._connect_too_often,
        )

    async def run(self) -> None:
        """Make trouble until cancelled. What takes longer than two seconds goes on next to what follows."""
        async with asyncio.TaskGroup() as tasks:
            for make_trouble in itertools.cycle(self._kinds):
                if self._callers.is_over:
                    return
                tasks.create_task(self._make(make_trouble))
                await asyncio.sleep(EVERY_SECONDS)

    async def _make(self, trouble: Callable[[], Awaitable[None]]) -> None:
        try:
            await trouble()
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            self._account.wrong.append(f"{trouble.__name__}: {error!r}")

    async def _break_an_answer(self) -> None:
        fault, dialect = next(self._faults), next(self._dialects)
        words = [{"role": "user", "content": f"please do it, fault:{fault}"}]
        for streams in (True, False):
            body = ask_in(dialect, words, stream=streams, model="hasty")
            self._account.admitted(f"fault {fault}", await call(self._port, PATHS[dialect], body, self._callers.headers))

    async def _cut_the_upstream(self) -> None:
        self._account.seen["upstream cut off"] += 1
        self._upstream.cut_all()

    async def _send_wrong_keys(self) -> None:
        for key in ("", "Bearer", "Bearer x", f"Bearer tdm_{'0' * 8}_{'A' * 43}", "Basic eDp5"):
            body = ask_in("chat", [{"role": "user", "content": "hello"}])
            reply = await call(self._port, PATHS["chat"], body, {"authorization": key})
            self._account.turned_away("wrong key", reply, 401, 429)

    async def _read_slowly(self) -> None:
        """Take a long answer in small pieces, and leave before its end."""
        for dialect, path in PATHS.items():
            words = [{"role": "user", "content": "write it all, soak:long"}]
            body = ask_in(dialect, words, stream=True, model=self._account.name())
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 12)
            with contextlib.closing(writer):
                writer.write(request_bytes(path, body, self._callers.headers))
                for _ in range(10):
                    await asyncio.wait_for(reader.read(1 << 12), 30)
                    await asyncio.sleep(0.1)
            self._account.seen["read slowly"] += 1

    async def _send_bad_bodies(self) -> None:
        for body in BAD_BODIES:
            dialect = next(self._dialects)
            self._account.admitted("bad body", await call(self._port, PATHS[dialect], body, self._callers.headers))

    async def _send_half_a_request(self) -> None:
        whole = request_bytes(PATHS["chat"], ask_in("chat", [{"role": "user", "content": "hello"}]), self._callers.headers)
        for part in (b"", whole[:20], whole[:-30], b"\x16\x03\x01\x02\x00" * 30, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            with contextlib.closing(writer):
                writer.write(part)
                await asyncio.sleep(0.1)
            self._account.seen["half a request"] += 1

    async def _break_sockets(self) -> None:
        """One that is cut in an answer, and one whose frames are not frames."""
        async with open_socket(self._port, **self._callers.headers) as socket:
            await socket.say("fix the typo, soak:slow", model=self._account.name())
            await asyncio.sleep(0.3)
            raw = socket.connection.transport.get_extra_info("socket")
            raw.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER: a reset
            socket.connection.transport.abort()
        async with open_socket(self._port, **self._callers.headers) as socket:
            socket.connection.transport.write(b"\xff\xff\xff\xff" * 8)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(socket.connection.wait_closed(), 30)
        self._account.seen["sockets broken"] += 2

    async def _reload(self) -> None:
        """Ask for the config to be read again. A router without that route answers 404."""
        reply = await call(self._port, "/tandem/reload", b"", self._admin)
        self._account.turned_away("reload", reply, 200, 404, 405)

    async def _connect_too_often(self) -> None:
        connections = []
        for _ in range(_IDLE_AT_ONCE):
            with contextlib.suppress(ConnectionError):
                from_elsewhere = ("127.0.0.2", 0)  # the callers' own address must not be full
                connections.append(await asyncio.open_connection("127.0.0.1", self._port, local_addr=from_elsewhere))
        refused = 0
        for reader, _ in connections:
            with contextlib.suppress(TimeoutError, ConnectionError):
                refused += await asyncio.wait_for(reader.read(1), 0.005) == b""
        self._account.seen["connections refused"] += refused
        for _, writer in connections:
            writer.close()
