"""What readers of the live feed cost a router: the p99 of requests and the memory, with them and without, one of them stopped.

`python -m tests.bench.readers` runs a router of its own as a process, alternates rounds without readers and with them, and prints
what it saw. `--rows 10000 --rate 2.8` is an hour of work at its own pace; without `--rate`, requests come one after the other.
"""

import argparse
import asyncio
import json
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.tools.http import call, read_reply, request_bytes

CONFIG = """
ledger: {path: readers.db}
limits: {write_idle_timeout_seconds: 600, max_connections_per_address: 500}
tiers:
  fast: {targets: [{name: quick, adapter: simulated, simulated: {ttft_seconds: 0, tokens_per_second: 100000, answer_tokens: 5}}]}
  deep: {targets: [{name: slow, adapter: simulated, simulated: {ttft_seconds: 0, tokens_per_second: 100000, answer_tokens: 5}}]}
"""
BODY = {"model": "fast", "messages": [{"role": "user", "content": "fix the typo in README.md"}]}


async def serve_for(port: int, rows: int, rate: float) -> list[float]:
    """The ms of each request, over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request, took = request_bytes("/v1/chat/completions", BODY), []
    for _ in range(rows):
        began = time.perf_counter()
        writer.write(request)
        assert (await read_reply(reader)).status == 200
        took.append((time.perf_counter() - began) * 1_000)
        if rate:
            await asyncio.sleep(max(0.0, 1 / rate - (time.perf_counter() - began)))
    writer.close()
    return took


class Following:
    """One reader: what it was sent, added up."""

    def __init__(self, *, counts: bool) -> None:
        self._counts = counts
        self.rows = self.more = self.missed = 0
        self.may_read = asyncio.Event()

    async def run(self, port: int) -> None:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=connection, limit=1 << 20)
        writer.write(request_bytes("/tandem/feed"))
        try:
            while True:
                await self.may_read.wait()
                if not self._counts:
                    await reader.read(1 << 16)
                    continue
                line = await reader.readline()
                if line.startswith(b"data: ") and b'"rows"' in line:
                    batch = json.loads(line[6:])
                    self.rows += len(batch["rows"])
                    self.more += batch["more"]
                    self.missed += batch["missed"]
        finally:
            writer.transport.abort()


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1_024


def p99(took: list[float]) -> float:
    return statistics.quantiles(took, n=100)[98]


async def measure(pid: int, port: int, options: argparse.Namespace) -> None:
    await serve_for(port, 1_500, 0)  # the ring is full, and below the control plane is loaded, which any page needs
    await call(port, "/tandem/turns")
    idle, without, with_readers, grown = memory_mb(pid), list[float](), list[float](), 0.0
    for _ in range(options.rounds):
        without += await serve_for(port, options.rows // options.rounds, options.rate)
        followed = [Following(counts=number < 2) for number in range(options.readers)]
        tasks = [asyncio.ensure_future(one.run(port)) for one in followed]  # noqa: TID251  held here
        for one in followed[1:]:
            one.may_read.set()
        await asyncio.sleep(1)
        with_readers += await serve_for(port, options.rows // options.rounds, options.rate)
        grown = max(grown, memory_mb(pid) - idle)
        followed[0].may_read.set()
        await asyncio.sleep(3)
        stopped, other = followed[0], followed[1]
        print(f"a reader: {other.rows} rows, {other.more} more, {other.missed} missed", end="; ")
        print(f"the one that stopped: {stopped.rows} rows, {stopped.more} more, {stopped.missed} missed")
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    print(f"p50 {statistics.median(without):.2f} ms without, {statistics.median(with_readers):.2f} ms with readers")
    print(f"p99 {p99(without):.2f} ms without, {p99(with_readers):.2f} ms: {p99(with_readers) / p99(without):.3f}")
    print(f"memory {idle:.1f} MB, at most {grown:+.1f} MB with readers")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second; 0 for as many as come one after the other")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.yaml").write_text(CONFIG)  # noqa: ASYNC240  before anything runs
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "router.cli", "serve", "--config", f"{folder}/config.yaml", "--port", str(port)]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            while process.returncode is None:
                try:
                    (await asyncio.open_connection("127.0.0.1", port))[1].close()
                    break
                except OSError:
                    await asyncio.sleep(0.1)
            await measure(process.pid, port, options)
        finally:
            process.terminate()
            await process.wait()


if __name__ == "__main__":
    asyncio.run(main())
