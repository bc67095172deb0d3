"""What several processes cost: CPU of a request with two workers, and with two routers of their own, against one process.

`python -m tests.bench.workers` prints it. Each request has a connection and goes to any of the processes; its session goes on in
all of them. Routers that share nothing and halve the load show what a process pays for being asked less often: it wakes up for
fewer requests at once, and finds less in its caches. The CPU of the Valkey server is not counted.
"""

import argparse
import json
import os
import random
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.bench.instructions import _ask
from tests.bench.processes import CONFIG, CORES, Process, start_upstream
from tests.bench.shared import SHARED, named_session
from tests.tools.valkey import ValkeyServer, find_server

CALLERS, REQUESTS = 8, 240
ONE = "one process"
WORKERS = "server: {{workers: 2}}\n"
KINDS = {
    ONE: (1, ""),
    "one that shares": (1, SHARED),
    "two routers apart": (2, ""),
    "two that share": (2, SHARED),
    "two workers": (1, WORKERS),
}
"""How many routers, and what more their config has."""


class Routers(NamedTuple):
    """Processes that serve together, and the ports that they are asked at."""

    pids: Sequence[int]
    ports: Sequence[int]
    callers: Sequence[Iterator[bytes]]

    def cpu_nanoseconds(self) -> int:
        return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in self.pids)  # as `Process.cpu_nanoseconds`

    def serve(self) -> float:
        """Ask them, and return the CPU of a request in µs."""
        before = self.cpu_nanoseconds()
        with ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(self._call, self.callers))
        return (self.cpu_nanoseconds() - before) / REQUESTS / 1_000

    def _call(self, requests: Iterator[bytes]) -> None:
        for _ in range(REQUESTS // CALLERS):
            with socket.create_connection(("127.0.0.1", random.choice(self.ports))) as connection:
                _ask(connection, [next(requests)])


def start(stack: ExitStack, upstream_port: int, count: int, more: str, valkey: str) -> Routers:
    """Start routers, and free them from the core that a benchmark gives its processes."""
    pids, ports = [], []
    for _ in range(count):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        path = folder / "config.yaml"
        path.write_text((CONFIG + more).format(url=f"http://127.0.0.1:{upstream_port}/v1"))
        log = stack.enter_context((folder / "log").open("w+"))
        command = [sys.executable, "-m", "router.cli", "serve", "--config", str(path), "--port", "0", "--log", "json"]
        process = Process(command, CORES[-1], stderr=log, env={**os.environ, "TANDEM_VALKEY_URL": valkey})
        stack.callback(process.stop)
        ports.append(_read_port(process, folder / "log"))
        pids += _find_workers(process.child.pid) if more == WORKERS else [process.child.pid]
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), CORES)
    return Routers(pids, ports, [named_session() for _ in range(CALLERS)])


def _read_port(process: Process, log: Path) -> int:
    while process.child.poll() is None:
        for line in log.read_text().splitlines():
            if '"server.started"' in line:
                return int(json.loads(line)["url"].rsplit(":", 1)[1])
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def _find_workers(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if "router.cli" in Path(f"/proc/{pid}/cmdline").read_text()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    if (program := find_server()) is None:
        print("no Valkey or Redis server on this machine", file=sys.stderr)
        return 1
    with ExitStack() as stack:
        stack.callback((server := ValkeyServer(program)).stop)
        server.start()
        upstream, upstream_port = start_upstream()
        stack.callback(upstream.child.kill)
        kinds = {name: start(stack, upstream_port, count, more, server.url()) for name, (count, more) in KINDS.items()}
        found: dict[str, list[float]] = {name: [] for name in kinds}
        for number in range(-1, rounds):  # the first is not counted
            for name in sorted(kinds, reverse=bool(number % 2)):
                taken = kinds[name].serve()
                if number >= 0:
                    found[name].append(taken)
    for name, taken in found.items():
        ratio = statistics.median(one / base for one, base in zip(taken, found[ONE], strict=True))
        print(f"{name:20} {statistics.median(taken):8.0f} µs  ratio {ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
