"""What traces cost: CPU of a whole router, all threads and the flush counted, without them and at two samples.

`python -m tests.bench.traces` prints it. The routers take turns, so that a busy machine is busy for all of them.
"""

import argparse
import socket
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.bench.load import body_of, request_of
from tests.bench.processes import CONFIG, Process, start_tandem, start_upstream
from tests.tools.trace_receiver import Receiver

SAMPLES = (None, 0.1, 1.0)
FLUSH_SECONDS = 2.6
"""A little longer than the router waits for more before it sends a batch."""
REQUEST = request_of(body_of(600))


def ask(port: int, count: int) -> None:
    """Send requests over one connection, one after the other."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        for _ in range(count):
            connection.sendall(REQUEST)
            length = 0
            while (line := answers.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            answers.read(length)


def measure(process: Process, port: int, count: int) -> float:
    """Microseconds of CPU for a request, until the last trace is sent."""
    before = process.cpu_nanoseconds()
    ask(port, count)
    time.sleep(FLUSH_SECONDS)
    return (process.cpu_nanoseconds() - before) / count / 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=1_000)
    given = parser.parse_args()
    found: dict[float | None, list[float]] = {sample: [] for sample in SAMPLES}
    with ExitStack() as stack, Receiver() as receiver:
        upstream, upstream_port = start_upstream()
        stack.callback(upstream.child.kill)
        routers: dict[float | None, tuple[Process, int]] = {}
        for sample in SAMPLES:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            extra = f"traces: {{{{endpoint: '{receiver.url}', sample: {sample}}}}}\n" if sample is not None else ""
            process, port, _ = start_tandem(upstream_port, folder, config=CONFIG + extra)
            stack.callback(process.child.kill)
            routers[sample] = process, port
            measure(process, port, 300)
        for number in range(given.rounds):
            for sample in SAMPLES[number % 3 :] + SAMPLES[: number % 3]:
                found[sample].append(measure(*routers[sample], given.requests))
        sent = sum(body.count(b'"decide"') for body in receiver.taken)
    off = found[None]
    for sample, each in found.items():
        ratio = statistics.median(one / base for one, base in zip(each, off, strict=True))
        name = "off" if sample is None else f"sample {sample}"
        print(f"{name:12} {statistics.median(each):7.1f} µs a request  {ratio:.3f}")
    print(f"{sent} traces taken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
