"""`python -m tests.bench many_sockets`: 500 silent sockets and 200 that stream 30 tokens a second, in one worker.

Meanwhile small requests go over plain HTTP, as they did before the sockets were there.
"""

import asyncio
import json
import re
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.processes import CORES, Process, say, start_tandem
from tests.bench.real_time import CONFIG
from tests.bench.talk import plan
from tests.bench.tool_loop import body_of, first_items

SILENT, STREAMING, PER_SECOND, SECONDS = 500, 200, 30, 8
TOKEN = re.compile(rb'"delta":"(\d{20}) "')
HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)
LIMITS = "limits: {{max_connections_per_address: 1000}}\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SILENT_MB, STREAMING_MB = "memory for the silent sockets, MB", "memory for the streaming ones, MB"
SILENT_CPU, STREAMING_CPU = "CPU with silent sockets, share of a core", "CPU with streaming ones too, share of a core"
TOKENS, LAG, PLAIN = "tokens that arrived", "token lag p50, ms", "plain HTTP meanwhile p50, ms"
BARS = {SILENT_MB: 8.0, STREAMING_MB: 40.0, SILENT_CPU: 0.02, STREAMING_CPU: 0.3, LAG: 50.0, PLAIN: 50.0}
"""The most that each may be: about twice what was measured. 99th percentiles have none, since this process is as slow as a
router where the machine has other work."""


async def open_raw(port: int) -> Streams:
    """A socket without a library, so that this process has time left for its clock."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HANDSHAKE)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    return reader, writer


async def stream(port: int, lags: list[float]) -> None:
    """One answer: how late each of its tokens is."""
    reader, writer = await open_raw(port)
    body = body_of(first_items(plan(tokens=PER_SECOND * SECONDS, per_second=PER_SECOND)), type="response.create")
    writer.write(b"\x81\xfe" + struct.pack(">H", len(body)) + b"\0\0\0\0" + body)
    rest = b""
    while b'"response.completed"' not in rest:
        piece = await reader.read(1 << 16)
        if not piece:
            raise RuntimeError("the socket was closed")
        now, rest = time.monotonic_ns(), rest[-300:] + piece
        lags += [(now - int(found)) / 1e6 for found in TOKEN.findall(piece)]
    writer.close()


async def ask_plainly(port: int, seconds: float) -> list[float]:
    """Milliseconds of small requests over HTTP, twenty a second on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = b'{"model":"auto","store":false,"input":"fix the typo"}'
    head = b"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    found, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        writer.write(head % len(body) + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", answer)[1]))
        found.append((time.perf_counter() - began) * 1e3)
        await asyncio.sleep(0.05)
    writer.close()
    return sorted(found)


def share(values: list[float], part: float) -> float:
    return values[min(len(values) - 1, int(len(values) * part))]


async def measure(tandem: Process, port: int) -> dict[str, float]:
    say("plain HTTP alone")
    alone = await ask_plainly(port, 3)
    idle_mb = tandem.resident_mb()
    say(f"{SILENT} silent sockets")
    silent = [await open_raw(port) for _ in range(SILENT)]
    silent_mb, before = tandem.resident_mb(), tandem.cpu_nanoseconds()
    await asyncio.sleep(2)
    silent_cpu = (tandem.cpu_nanoseconds() - before) / 2e9
    say(f"{STREAMING} streaming sockets")
    lags: list[float] = []
    began, before = time.monotonic(), tandem.cpu_nanoseconds()
    plainly = ask_plainly(port, SECONDS - 1)
    answered = asyncio.gather(plainly, *(stream(port, lags) for _ in range(STREAMING)))
    await asyncio.sleep(SECONDS * 0.75)
    most_mb = tandem.resident_mb()
    meanwhile = (await answered)[0]
    cpu = (tandem.cpu_nanoseconds() - before) / 1e9 / (time.monotonic() - began)
    for _, writer in silent:
        writer.close()
    lags.sort()
    return {
        "memory idle, MB": idle_mb,
        SILENT_MB: silent_mb - idle_mb,
        STREAMING_MB: most_mb - silent_mb,
        SILENT_CPU: silent_cpu,
        STREAMING_CPU: cpu,
        TOKENS: len(lags),
        LAG: share(lags, 0.5),
        "token lag p99, ms": share(lags, 0.99),
        "plain HTTP alone p50, ms": share(alone, 0.5),
        PLAIN: share(meanwhile, 0.5),
        "plain HTTP meanwhile p99, ms": share(meanwhile, 0.99),
    }


def find_missed(found: dict[str, float]) -> list[str]:
    """The bars that are not met. Every token of every stream must have arrived."""
    missed = [title for title, most in BARS.items() if found[title] > most]
    return missed if found[TOKENS] == STREAMING * SECONDS * PER_SECOND else [*missed, TOKENS]


def main(json_file: str | None = None) -> int:
    upstream = Process([sys.executable, "-m", "tests.bench.talk", "0"], CORES[0], stdout=subprocess.PIPE)
    with tempfile.TemporaryDirectory() as folder:
        tandem, port, _ = start_tandem(int(upstream.child.stdout.readline()), Path(folder), config=CONFIG + LIMITS)
        try:
            found = asyncio.run(measure(tandem, port))
        finally:
            tandem.stop()
            upstream.stop()
    print(f"{SILENT} silent sockets, and {STREAMING} that stream {PER_SECOND} tokens a second")
    for title, value in found.items():
        print(f"{title:<50}{value:>10,.2f}{f'  ≤ {BARS[title]:g}' if title in BARS else ''}")
    missed = find_missed(found)
    print(f"missed: {'; '.join(missed)}" if missed else "nothing is missed")
    if json_file:
        Path(json_file).write_text(json.dumps(found, indent=2))
    return 1 if missed else 0
