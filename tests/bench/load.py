"""The benchmark's requests and its callers: closed loops, or streams whose every token carries the time at which it was made."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator

TOKEN = re.compile(rb'"(?:content|delta|text)":"(\d{20}) "')
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


def body_of(size: int, *, tokens: int | None = None, dialect: str = "chat", pull: int | None = None) -> bytes:
    """A request of about `size` bytes, its text source code; streaming when `tokens` is given. The same bytes every time.

    With `pull` the upstream makes a token only when it is told to, by this number.
    """
    code = "def add(a, b):\n    return a + b  # the sum of both\n\n\n"
    words = f"Answer in one sentence. tokens={tokens or 0} {f'pull={pull} ' if pull is not None else ''}"
    text = words + code * (max(0, size - 120) // (len(code) + 5))
    said = [{"role": "user", "content": text}]
    asked = {"input": said} if dialect == "responses" else {"messages": said}
    request = {"model": "auto", **({"stream": True} if tokens else {}), **asked}
    if dialect == "messages":
        request["max_tokens"] = 100_000
    return json.dumps(request, separators=(",", ":")).encode()


def request_of(body: bytes, dialect: str = "chat") -> bytes:
    head = f"POST {PATHS[dialect]} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def read_whole(reader: asyncio.StreamReader) -> None:
    """An answer to its end, whether it has a length or is streamed."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head[:20], head
    length = re.search(rb"content-length: (\d+)", head.lower())
    if length is None:
        await reader.readuntil(b"\r\n0\r\n\r\n")
    else:
        await reader.readexactly(int(length.group(1)))


async def ask(port: int, requests: Iterator[bytes], until: float, latencies: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    await ask_over(reader, writer, requests, until, latencies)
    writer.close()


async def ask_over(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: Iterator[bytes], until: float, latencies: list[float]
) -> None:
    while time.monotonic() < until:
        request = next(requests)
        began = time.perf_counter()
        writer.write(request)
        await read_whole(reader)
        latencies.append(time.perf_counter() - began)


async def listen(port: int, request: bytes, heard: Callable[[float], None], firsts: list[float]) -> None:
    """One stream: `heard` is told the lag of every token, `firsts` gets the time to the first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    began, rest, first = time.perf_counter(), b"", True
    writer.write(request)
    while b"0\r\n\r\n" not in rest[-16:]:
        piece = await reader.read(1 << 16)
        if not piece:
            raise RuntimeError("the stream was cut")
        now = time.monotonic_ns()
        if first and b'"content"' in piece:
            firsts.append(time.perf_counter() - began)
            first = False
        data = rest + piece
        last = 0
        for token in TOKEN.finditer(data):
            heard((now - int(token.group(1))) / 1e9)
            last = token.end()
        rest = data[max(last, len(data) - 200) :]
    writer.close()
