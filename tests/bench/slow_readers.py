"""`python -m tests.bench.slow_readers [count] [chat responses socket ...]`: callers that read a byte a second of large streams.

Prints for each kind how much memory the router has more at the peak, and what a bystander's small requests meet meanwhile: the
router's CPU between request and answer, and the clock, which is noisy where the machine has other work. Half a minute each.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.hostile import part
from tests.bench.processes import CORES, Process, say, start_tandem
from tests.bench.upstream import FRAME, HEAD, LAST, WHOLE, chunk
from tests.tools.http import chat, read_reply, request_bytes

COUNT, SECONDS, BETWEEN_SECONDS = 200, 20.0, 0.1
MOST_MB, MOST_CPU_MS = 120, 50
LARGE, LARGE_PIECES = "LARGE: write a great deal", 256
PIECE = chunk(b"".join(FRAME % number for number in range(450)))  # 64 KB
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
CONFIG = """
ledger: {{path: bench.db}}
limits: {{max_in_flight: 2000, max_connections_per_address: 5000}}
tiers:
  fast: {{targets: [{{name: quick, adapter: openai_http, dialect: chat, base_url: "{url}", model: m}}]}}
  deep: {{targets: [{{name: thorough, adapter: openai_http, dialect: chat, base_url: "{url}", model: m, window_tokens: 400000}}]}}
"""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The upstream: streams as fast as it is read."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            if LARGE.encode() not in body:
                writer.write(WHOLE)
                continue
            writer.write(HEAD)
            for _ in range(LARGE_PIECES):
                writer.write(PIECE)
                await writer.drain()
            writer.write(chunk(LAST) + b"0\r\n\r\n")
    writer.close()


async def serve_upstream() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def text_frame(text: bytes) -> bytes:
    """A masked frame, whose mask changes nothing."""
    return b"\x81\xfe" + len(text).to_bytes(2) + bytes(4) + text


def request_for(kind: str) -> bytes:
    if kind == "chat":
        return request_bytes(CHAT, chat(LARGE, stream=True))
    if kind == "responses":
        return request_bytes(RESPONSES, {"model": "auto", "input": LARGE, "stream": True})
    return HANDSHAKE + text_frame(json.dumps({"type": "response.create", "model": "auto", "input": LARGE}).ljust(200).encode())


async def read_slowly(port: int, kind: str) -> None:
    # A stream reader of asyncio would read ahead.
    loop, sock = asyncio.get_running_loop(), socket.socket()
    with sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        await loop.sock_sendall(sock, request_for(kind))
        while await loop.sock_recv(sock, 1):  # noqa: ASYNC110  a reader of this pace, not a wait
            await asyncio.sleep(1)


async def read_all_slowly(port: int, kind: str, count: int) -> None:
    await asyncio.gather(*(read_slowly(port, kind) for _ in range(count)))


async def stand_by(port: int, tandem: Process) -> tuple[list[float], list[float], float]:
    """Sorted milliseconds of CPU and of the clock that small requests took, and the peak of the router's memory."""
    cpu_ms, clock_ms, peak = [], [], 0.0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    until = time.monotonic() + SECONDS
    while (began := time.monotonic()) < until:
        cpu = tandem.cpu_nanoseconds()
        writer.write(request_bytes(CHAT, chat(f"fix typo {len(cpu_ms)}")))
        assert (await read_reply(reader)).status == 200
        clock_ms.append((time.monotonic() - began) * 1e3)
        cpu_ms.append((tandem.cpu_nanoseconds() - cpu) / 1e6)
        peak = max(peak, tandem.resident_mb())
        await asyncio.sleep(BETWEEN_SECONDS)
    writer.close()
    return sorted(cpu_ms), sorted(clock_ms), peak


def start(*role: str, before: tuple[str, ...] = ()) -> Process:
    return Process([*before, sys.executable, "-m", "tests.bench.slow_readers", *role], CORES[0], stdout=subprocess.PIPE)


async def measure(kind: str, count: int, upstream_port: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        tandem, port, _ = start_tandem(upstream_port, Path(folder), config=CONFIG)
        before = tandem.resident_mb()
        readers = start("readers", str(port), kind, str(count), before=("nice", "-n", "15"))
        try:
            cpu_ms, clock_ms, peak = await stand_by(port, tandem)
        finally:
            readers.stop()
            tandem.stop()
    holds = peak - before <= MOST_MB and part(cpu_ms, 0.99) <= MOST_CPU_MS
    say(
        f"{kind:10} {count} readers: {peak - before:+6.1f} MB at the peak; bystander {len(cpu_ms)} asked, CPU p50 "
        f"{part(cpu_ms, 0.5):.1f} p99 {part(cpu_ms, 0.99):.1f} ms, clock p50 {part(clock_ms, 0.5):.1f} "
        f"p99 {part(clock_ms, 0.99):.1f} ms{'' if holds else '  over the bar'}"
    )
    return holds


async def measure_all(count: int, kinds: tuple[str, ...]) -> bool:
    upstream = start("upstream")
    upstream_port = int(upstream.child.stdout.readline())
    try:
        return all([await measure(kind, count, upstream_port) for kind in kinds])
    finally:
        upstream.stop()


def main(role: str = str(COUNT), *given: str) -> None:
    if role == "upstream":
        asyncio.run(serve_upstream())
    elif role == "readers":
        port, kind, count = given
        asyncio.run(read_all_slowly(int(port), kind, int(count)))
    else:
        sys.exit(not asyncio.run(measure_all(int(role), given or ("chat", "responses", "socket"))))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
