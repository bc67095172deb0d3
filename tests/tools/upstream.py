"""A scripted upstream."""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.tools.waiting import by_the_clock, later

CHAT_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    left: asyncio.Event = field(default_factory=asyncio.Event)
    left_at: float = 0.0

    @property
    def json(self) -> dict:
        return json.loads(self.body)


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        if self.writer.is_closing():
            raise ConnectionResetError
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)  # the router shares this loop: an endless answer must let it run

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end_chunks(self) -> None:
        await self.send(b"0\r\n\r\n")

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Wire, Seen], Awaitable[None]]


def _look_away(leaving: asyncio.Task) -> None:
    """A caller that left may have reset the connection, which is fine after its answer."""
    if not leaving.cancelled():
        leaving.exception()


class Upstream:
    """Plays scripts in turn, the last repeatedly."""

    def __init__(self) -> None:
        self.scripts: list[Script] = []
        self.seen: list[Seen] = []
        self.connections = 0
        self.arrived = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task] = set()

    @property
    def open_connections(self) -> int:
        return len(self._tasks)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def start(self, port: int | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port or 0)

    async def stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self.connections += 1
        seen: Seen | None = None
        try:
            first = b""
            while (seen := await self._read(reader, first)) is not None:
                self.seen.append(seen)
                self.arrived.set()
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                answering = later(script(Wire(reader, writer), seen))
                leaving = later(reader.read(1))
                await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
                if leaving.done() and not answering.done():
                    seen.left_at = asyncio.get_running_loop().time()
                    seen.left.set()
                    answering.cancel()
                    await asyncio.gather(answering, leaving, return_exceptions=True)
                    return
                leaving.add_done_callback(_look_away)
                await answering
                if writer.is_closing():
                    leaving.cancel()
                    return
                first = await leaving
                if not first:
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            if seen is not None:
                seen.left_at = asyncio.get_running_loop().time()
                seen.left.set()
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    @staticmethod
    async def _read(reader: asyncio.StreamReader, first: bytes) -> Seen | None:
        try:
            head = first + await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            if name:
                headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Seen(method, path, headers, body)


async def silent(wire: Wire, seen: Seen) -> None:
    await asyncio.Event().wait()


def answer_json(body: dict | bytes, status: int = 200, headers: dict[str, str] | None = None) -> Script:
    async def script(wire: Wire, seen: Seen) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        kind = "" if headers and "content-type" in headers else "content-type: application/json\r\n"
        await wire.send(f"HTTP/1.1 {status} X\r\n{kind}{extra}content-length: {len(raw)}\r\n\r\n".encode() + raw)

    return script


CHAT_ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}


def chat_frame(text: str | None = None, finish: str | None = None) -> bytes:
    delta = {} if text is None else {"content": text}
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


CHAT_USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}\n\n'
DONE = b"data: [DONE]\n\n"


def stream(*pieces: bytes, ends: bool = True, pause: float = 0.0) -> Script:
    """One chunk per piece."""

    async def script(wire: Wire, seen: Seen) -> None:
        await wire.send(CHAT_STREAM_HEAD)
        for piece in pieces:
            await wire.chunk(piece)
            await by_the_clock(pause)
        if ends:
            await wire.end_chunks()
        else:
            wire.writer.close()

    return script


GOOD_CHAT_STREAM = (chat_frame("a"), chat_frame("b"), chat_frame(finish="stop"), CHAT_USAGE, DONE)
SEEN_CHAT_STREAM = b"".join(piece for piece in GOOD_CHAT_STREAM if piece != CHAT_USAGE)
"""What callers get that did not ask for usage."""
