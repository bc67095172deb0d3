"""How many instructions of the processor a request costs, next to the same small request sent again: C is counted too.

`python -m tests.bench.instructions` prints it. The real server runs under callgrind, which counts only while it is told to. Unlike
bytecodes, this sees regular expressions, searches and parsers. It takes a minute, and repeats within three per cent under any
load. The counts belong to one machine and one Python; their ratios hardly do.

The loop's thread is counted for a few requests, less what an idle loop takes in that time, and all threads for a burst of
sixteen callers: the ledger's writes many rows at a time. Of helper processes, the CPU time is read.
"""

import argparse
import contextlib
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.bench.load import body_of, request_of
from tests.bench.once import ONCE
from tests.bench.processes import CONFIG, RESPONSES_CONFIG, start_tandem, start_upstream
from tests.bench.upstream import PULL

WARM, COUNTED, APART, TOGETHER, SMALL_TOGETHER = 8, 3, 3, 5, 40
"""Requests before the counts, counts, and requests before each and in each. What timers take is a guess, and shared by those in it.

Sessions are of eight or sixteen calls: those that are counted together are never the first. All kinds are compared with the small
request, so more of it are counted.
"""
SETTLE_SECONDS = 0.3
"""A row is written a little after its answer, and a server under callgrind takes fifty times as long for everything."""
REPEATED = "600 B, repeated"
CALLERS, ROUNDS, WARM_PIECES, PIECES = 16, 10, 64, 128
FRAME_END = b"\n\n\r\n"
PLAIN_C = "glibc.cpu.hwcaps=-AVX2,-AVX_Fast_Unaligned_Load,-BMI2,-ERMS,-FSRM"
"""The C library copies and searches with what the processor has, and callgrind counts each byte of its fastest copy as an
instruction. With what all have, the counts of two processors can be compared.
"""


class Burst(NamedTuple):
    """A request of sixteen callers, in thousand instructions: of the loop's thread, and of all others."""

    loop: float
    others: float


class Found(NamedTuple):
    kinds: dict[str, float]
    """Instructions of the loop's thread for one request of each kind, in thousands: the least of some counts."""
    burst: Burst
    piece: float
    """Instructions of the loop's thread for a piece of a stream, of sixteen that run together, in thousands."""
    helpers_us: dict[str, float]
    """CPU of helper processes for one request of each kind."""


def cases() -> dict[str, dict[str, Iterator[bytes]]]:
    """Requests without end, for each kind, by the config of their router."""
    small, own = itertools.repeat(request_of(body_of(600))), itertools.count
    return {
        CONFIG: {
            REPEATED: small,
            "new words": ONCE["fresh"](own(1)),
            "agent, goes on": ONCE["agent"](own(1)),
            "agent, first seen": ONCE["agent_first"](own(1_000)),
            "500 KB, grown": ONCE["grown"](own(1)),
        },
        RESPONSES_CONFIG: {
            "Codex-like, goes on": ONCE["codex"](own(1)),
            "Codex-like, first seen": ONCE["codex_first"](own(1_000)),
        },
    }


def count_instructions(counted: int = COUNTED, only: Mapping[str, Collection[str]] | None = None) -> Found:
    """`only` names kinds by config."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        upstream, upstream_port = start_upstream()
        try:
            found, all_counts, helpers = dict[str, float](), list[Found](), dict[str, float]()
            for number, (config, all_kinds) in enumerate(cases().items()):
                kinds = {name: all_kinds[name] for name in (all_kinds if only is None else only.get(config, ()))}
                if not kinds:
                    continue
                (own := folder / str(number)).mkdir()
                counts = _count(own, upstream_port, counted, kinds, config)
                found |= counts.kinds
                helpers |= counts.helpers_us
                all_counts.append(counts)
            return all_counts[0]._replace(kinds=found, helpers_us=helpers)
        finally:
            upstream.stop()


def _count(folder: Path, upstream_port: int, counted: int, kinds: dict[str, Iterator[bytes]], config: str) -> Found:
    out = folder / "out"
    valgrind = (
        shutil.which("valgrind") or "valgrind",
        "--tool=callgrind",
        "--instr-atstart=no",
        "--separate-threads=yes",
        f"--callgrind-out-file={out}",
    )
    environment = {**os.environ, "GLIBC_TUNABLES": PLAIN_C}
    process, port, _ = start_tandem(upstream_port, folder, config=config, before=(*valgrind, "-q"), env=environment)
    found, helpers, burst, piece = dict[str, float](), dict[str, float](), Burst(0.0, 0.0), 0.0
    try:
        _control(process.child.pid, "-i", "on")
        idle: int | None = None
        for kind, requests in kinds.items():
            with socket.create_connection(("127.0.0.1", port)) as connection:
                _ask(connection, itertools.islice(requests, WARM))
                time.sleep(SETTLE_SECONDS)
                _control(process.child.pid, "-z")
                if idle is None:
                    idle = min(_count_one(process.child.pid, connection, (), out) for _ in range(counted))
                before = _helpers_ns(process.child.pid)
                together, asked = SMALL_TOGETHER if kind == REPEATED else TOGETHER, list[int]()
                for _ in range(counted):
                    _ask(connection, itertools.islice(requests, APART))
                    time.sleep(SETTLE_SECONDS)
                    _control(process.child.pid, "-z")
                    asked.append(_count_one(process.child.pid, connection, itertools.islice(requests, together), out))
                found[kind] = (min(asked) - idle) / together / 1000
                helpers[kind] = (_helpers_ns(process.child.pid) - before) / counted / (APART + together) / 1000
        if REPEATED in kinds:
            burst = _count_burst(process.child.pid, port, kinds[REPEATED], out)
            piece = _count_piece(process.child.pid, port, upstream_port, out)
    finally:
        process.child.send_signal(signal.SIGKILL)
        process.stop()
    return Found(found, burst, piece, helpers)


def _count_burst(pid: int, port: int, requests: Iterator[bytes], out: Path) -> Burst:
    with contextlib.ExitStack() as stack:
        callers = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CALLERS)]
        for is_counted in (False, True):
            for _ in range(ROUNDS):
                for connection in callers:
                    connection.sendall(next(requests))
                for connection in callers:
                    _read_answer(connection)
            time.sleep(SETTLE_SECONDS)
            _control(pid, *(("-d",) if is_counted else ("-z",)))
    loop, others = _read_threads(out)
    return Burst(loop / CALLERS / ROUNDS / 1000, others / CALLERS / ROUNDS / 1000)


def _count_piece(pid: int, port: int, upstream_port: int, out: Path) -> float:
    """Streams whose next token is made when the last one was read, so that each read of the router is one piece."""
    with contextlib.ExitStack() as stack:
        upstream, *callers = (
            stack.enter_context(socket.create_connection(("127.0.0.1", of))) for of in (upstream_port, *[port] * CALLERS)
        )
        upstream.sendall(PULL)
        for number, connection in enumerate(callers):
            connection.sendall(request_of(body_of(600, tokens=1, pull=number)))
            _read_to(connection, FRAME_END)
        for rounds in (WARM_PIECES, PIECES):
            _control(pid, "-z")
            for _ in range(rounds):
                upstream.sendall(bytes(range(CALLERS)))
                for connection in callers:
                    _read_to(connection, FRAME_END)
        _control(pid, "-d")
    return _read_threads(out)[0] / CALLERS / PIECES / 1000


def _read_to(connection: socket.socket, end: bytes) -> None:
    received = b""
    while not received.endswith(end):
        piece = connection.recv(65_536)
        assert piece, received
        received += piece


def _helpers_ns(pid: int) -> int:
    """CPU of a process's children so far."""
    children = [child for listed in Path(f"/proc/{pid}/task").glob("*/children") for child in listed.read_text().split()]
    return sum(time.clock_gettime_ns((~int(child) << 3) | 2) for child in children)


def _count_one(pid: int, connection: socket.socket, requests: Iterable[bytes], out: Path) -> int:
    """Without requests: what an idle loop takes in the time that a request is given to be settled."""
    _ask(connection, requests)
    time.sleep(SETTLE_SECONDS)
    _control(pid, "-d")
    return _read_threads(out)[0]


def _ask(connection: socket.socket, requests: Iterable[bytes]) -> None:
    for request in requests:
        connection.sendall(request)
        _read_answer(connection)


def _read_answer(connection: socket.socket) -> None:
    with connection.makefile("rb") as answers:
        assert b" 200 " in (status := answers.readline()), status
        length = None
        while (line := answers.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if length is not None:
            answers.read(length)
        else:
            while size := int(answers.readline(), 16):
                answers.read(size + 2)
            answers.readline()


def _control(pid: int, *words: str) -> None:
    subprocess.run(["callgrind_control", *words, str(pid)], check=True, capture_output=True, timeout=120)


def _read_threads(out: Path) -> tuple[int, int]:
    """The newest dump's sums: of the loop's thread, and of all others."""
    dumps: dict[int, dict[str, Path]] = {}
    for path in out.parent.glob(f"{out.name}.*-*"):
        number, _, thread = path.suffix[1:].partition("-")
        dumps.setdefault(int(number), {})[thread] = path
    sums = {
        thread: int(re.findall(r"^(?:summary|totals): (\d+)", path.read_text(), re.MULTILINE)[0])
        for thread, path in dumps[max(dumps)].items()
    }
    return sums.pop("01"), sum(sums.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=COUNTED, help=f"how many of each kind are counted (default: {COUNTED})")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: nothing is counted", file=sys.stderr)
        return 1
    found = count_instructions(given.requests)
    for kind, thousands in found.kinds.items():
        helped = f"  helper processes {us:,.0f} µs" if (us := found.helpers_us[kind]) else ""
        print(f"{kind:36} {thousands:9,.0f} thousand  {thousands / found.kinds[REPEATED]:6.2f}{helped}")
    print(
        f"{f'relayed piece, {CALLERS} streams':36} {found.piece:9,.1f} thousand  {found.piece / found.burst.loop:6.4f} of the loop's request"
    )
    loop, others = found.burst
    print(f"{f'600 B, {CALLERS} callers: the loop':36} {loop:9,.0f} thousand")
    print(f"{f'600 B, {CALLERS} callers: other threads':36} {others:9,.0f} thousand  {others / loop:6.2f} of the loop")
    return 0


if __name__ == "__main__":
    sys.exit(main())
