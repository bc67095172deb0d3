"""A scripted target for the Responses API over WebSocket and HTTP, on one port."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tests.tools.speech import Speech, ToolCall, speak, write_stream
from tests.tools.upstream import Upstream
from tests.tools.waiting import later, some_turns


@dataclass
class SocketSeen:
    socket: int
    """From 1."""
    raw: str
    headers: dict[str, str]
    left: asyncio.Event = field(default_factory=asyncio.Event)
    left_at: float = 0.0

    @property
    def json(self) -> dict:
        return json.loads(self.raw)


SocketScript = Callable[[ServerConnection, SocketSeen], Awaitable[None]]


class SocketUpstream:
    """Each message plays a script, the last repeatedly; posts go to `http`."""

    def __init__(self, *scripts: SocketScript) -> None:
        self.scripts = list(scripts) or [say("ok")]
        self.seen: list[SocketSeen] = []
        self.accepted = self.sockets = 0
        self.open: set[ServerConnection] = set()
        self.upgrade_status: int | None = None
        self.handshake_headers: dict[str, str] = {}
        self.http = Upstream()
        self.http.scripts = [speak("responses", Speech("over http"))]
        self._server: Server
        self._front: asyncio.Server
        self._pumps: set[asyncio.Task] = set()

    async def start(self) -> None:
        await self.http.start()
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            0,
            process_request=self._check,
            process_response=self._add_headers,
            compression=None,
            ping_interval=None,
            max_size=None,
        )
        self._front = await asyncio.start_server(self._accept, sock=_listen())

    async def stop(self) -> None:
        self._front.close()
        for pump in tuple(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        self._server.close(close_connections=True)
        await self._server.wait_closed()
        await self.http.stop()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._front.sockets[0].getsockname()[1]}/v1"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The first bytes tell the protocol."""
        self.accepted += 1
        task = asyncio.current_task()
        self._pumps.add(task)
        try:
            first = await reader.read(4)
            if not first:
                return
            listening = (self.http._server if first.startswith(b"POST") else self._server).sockets
            port = next(iter(listening)).getsockname()[1]
            behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", port)
            hold_little(behind_writer.get_extra_info("socket"))
            behind_writer.write(first)
            both = [
                later(_pump(reader, behind_writer)),
                later(_pump(behind_reader, writer)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                behind_writer.close()
                for pump in both:
                    pump.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._pumps.discard(task)

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        if self.upgrade_status is not None:
            return connection.respond(HTTPStatus(self.upgrade_status), "no sockets here")
        return None

    def _add_headers(self, connection: ServerConnection, request: Request, response: Response) -> None:
        for name, value in self.handshake_headers.items():
            response.headers[name] = value

    async def _serve(self, connection: ServerConnection) -> None:
        self.sockets += 1
        number, headers = self.sockets, {name.lower(): value for name, value in connection.request.headers.raw_items()}
        self.open.add(connection)
        leaving = later(connection.wait_closed())
        seen: SocketSeen | None = None
        try:
            async for raw in connection:
                seen = SocketSeen(number, raw, headers)
                self.seen.append(seen)
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                playing = later(script(connection, seen))
                await asyncio.wait({playing, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not playing.done():
                    break
                playing.result()
        except ConnectionClosed:
            pass
        finally:
            self.open.discard(connection)
            if seen is not None:
                seen.left_at = asyncio.get_running_loop().time()
                seen.left.set()
            with contextlib.suppress(asyncio.CancelledError, UnboundLocalError):
                playing.cancel()
                await playing
            leaving.cancel()


def hold_little(connection: socket.socket) -> None:
    """Keep kernel buffers small, which otherwise hold megabytes on each side."""
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, 1 << 16)


def _listen() -> socket.socket:
    listener = socket.socket()
    hold_little(listener)
    listener.bind(("127.0.0.1", 0))
    return listener


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()


def events_of(speech: Speech, response_id: str = "") -> list[dict]:
    events = [json.loads(frame.split(b"data: ", 1)[1]) for frame in write_stream("responses", speech)]
    for event in events:
        if "response" in event:
            event["response"]["id"] = response_id or "resp_1"
            event["response"]["store"] = False
    return events


def say(text: str = "", *calls: ToolCall, thinking: str = "") -> SocketScript:
    """Each response has its own id."""

    async def script(connection: ServerConnection, seen: SocketSeen) -> None:
        for event in events_of(Speech(text, calls, thinking), f"resp_{id(seen)}"):
            await connection.send(json.dumps(event))

    return script


def refuse(status: int, code: str | None = None, message: str = "no", **headers: str) -> SocketScript:
    async def script(connection: ServerConnection, seen: SocketSeen) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        error = {"type": "invalid_request_error", "code": code, "message": message, "param": None}
        await connection.send(json.dumps({"type": "error", "status": status, "error": error, "headers": named}))

    return script


def die(after: int = 0) -> SocketScript:
    """Break the connection after `after` events."""

    async def script(connection: ServerConnection, seen: SocketSeen) -> None:
        for event in events_of(Speech("some words of an answer"))[:after]:
            await connection.send(json.dumps(event))
        await some_turns()
        connection.transport.abort()

    return script


async def write_without_end(connection: ServerConnection, seen: SocketSeen) -> None:
    for event in events_of(Speech("first words of a long answer"))[:-4]:
        await connection.send(json.dumps(event))
    await asyncio.Event().wait()


async def say_nothing(connection: ServerConnection, seen: SocketSeen) -> None:
    await asyncio.Event().wait()
