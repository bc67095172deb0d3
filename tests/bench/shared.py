"""What sharing sessions costs: CPU of a request at a router that shares a Valkey server, against one that shares nothing.

`python -m tests.bench.shared` prints it. Both take turns in short bursts, so that a busy machine is busy for both. The CPU of the
Valkey server itself is not counted.
"""

import argparse
import asyncio
import itertools
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path

from tests.bench.bursts import Measure, Order, Router, callers, cpu_under, requests_sent_once, time_to_first_token
from tests.bench.load import body_of, request_of
from tests.bench.processes import CONFIG, start_tandem, start_upstream
from tests.tools.valkey import ValkeyServer, find_server

OFF, ON = "off", "shared"
SHARED = "shared: {{valkey: {{url: env:TANDEM_VALKEY_URL}}}}\n"
_numbers = itertools.count(1)


def named_session() -> Iterator[bytes]:
    """The same request of a session with a name, which no other caller has."""
    head = b"x-tandem-session: bench-%d\r\ncontent-length:" % next(_numbers)
    return repeat(request_of(body_of(600)).replace(b"content-length:", head, 1))


MEASURES: dict[str, Measure] = {
    "named session, one caller": cpu_under(lambda router: callers(router, named_session, 1)),
    "named sessions, 8 callers": cpu_under(lambda router: callers(router, named_session, 8)),
    "sessions told by their beginning, each new": requests_sent_once("fresh"),
    "a tool loop that goes on, 50 KB": requests_sent_once("agent"),
    "ms to the first token": time_to_first_token,
}


async def measure(routers: dict[str, Router], rounds: int, seconds: float) -> None:
    for name, each in MEASURES.items():
        found: dict[str, list[float]] = {OFF: [], ON: []}
        for number in range(rounds):
            order: Order = (OFF, ON, ON, OFF) if number % 2 else (ON, OFF, OFF, ON)
            for version, figure in await each(routers, order, seconds):
                found[version].append(figure)
        ratios = [on / off for off, on in zip(found[OFF], found[ON], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        off, on = (statistics.median(found[version]) for version in (OFF, ON))
        print(f"{name:44} {off:8.2f} {on:8.2f}  ratio {middle:.3f} (quartiles {low:.3f} to {high:.3f})", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5)
    given = parser.parse_args()
    if (program := find_server()) is None:
        print("no Valkey or Redis server on this machine", file=sys.stderr)
        return 1
    with ExitStack() as stack:
        stack.callback((server := ValkeyServer(program)).stop)
        server.start()
        upstream, upstream_port = start_upstream()
        stack.callback(upstream.child.kill)
        routers = {}
        for version, more in ((OFF, ""), (ON, SHARED)):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            environment = {**os.environ, "TANDEM_VALKEY_URL": server.url()}
            process, port, _ = start_tandem(upstream_port, folder, config=CONFIG + more, env=environment)
            stack.callback(process.child.kill)
            routers[version] = Router(process, port, upstream_port)
        asyncio.run(measure(routers, given.rounds, given.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
