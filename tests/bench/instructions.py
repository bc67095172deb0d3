"""How many instructions of the processor a request costs, next to the same small request sent again: C is counted too.

`python -m tests.bench.instructions` prints it. The real server runs under callgrind, which counts only while it is told to. Unlike
bytecodes, this sees regular expressions, searches and parsers. It takes three quarters of a minute, and repeats within three per
cent under any load. The counts belong to one machine and one Python; their ratios hardly do.
"""

import argparse
import itertools
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.bench.load import body_of, request_of
from tests.bench.once import ONCE
from tests.bench.processes import CONFIG, RESPONSES_CONFIG, start_tandem, start_upstream

WARM, COUNTED = 6, 4
SETTLE_SECONDS = 0.3
"""A row is written a little after its answer, and a server under callgrind takes fifty times as long for everything."""
REPEATED = "600 B, repeated"


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


def count_instructions(counted: int = COUNTED) -> dict[str, float]:
    """Instructions for one request of each kind, in thousands: the least of some counts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        upstream, upstream_port = start_upstream()
        try:
            found: dict[str, float] = {}
            for number, (config, kinds) in enumerate(cases().items()):
                (own := folder / str(number)).mkdir()
                found |= _count(own, upstream_port, counted, kinds, config)
            return found
        finally:
            upstream.stop()


def _count(folder: Path, upstream_port: int, counted: int, kinds: dict[str, Iterator[bytes]], config: str) -> dict[str, float]:
    out = folder / "out"
    valgrind = (
        shutil.which("valgrind") or "valgrind",
        "--tool=callgrind",
        "--instr-atstart=no",
        "--separate-threads=yes",
        f"--callgrind-out-file={out}",
    )
    process, port, _ = start_tandem(upstream_port, folder, config=config, before=(*valgrind, "-q"))
    found: dict[str, float] = {}
    try:
        _control(process.child.pid, "-i", "on")
        for kind, requests in kinds.items():
            with socket.create_connection(("127.0.0.1", port)) as connection:
                _ask(connection, itertools.islice(requests, WARM))
                time.sleep(SETTLE_SECONDS)
                _control(process.child.pid, "-z")
                found[kind] = min(_count_one(process.child.pid, connection, next(requests), out) for _ in range(counted)) / 1000
    finally:
        process.child.send_signal(signal.SIGKILL)
        process.stop()
    return found


def _count_one(pid: int, connection: socket.socket, request: bytes, out: Path) -> int:
    _ask(connection, [request])
    time.sleep(SETTLE_SECONDS)
    _control(pid, "-d")
    return _read_total(out)


def _ask(connection: socket.socket, requests: Iterable[bytes]) -> None:
    with connection.makefile("rb") as answers:
        for request in requests:
            connection.sendall(request)
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


def _read_total(out: Path) -> int:
    """The newest dump's sum, of the loop's thread alone: the ledger's writes many rows at a time."""
    dumps = (path for path in out.parent.glob(f"{out.name}.*-01"))
    newest = max(dumps, key=lambda path: int(path.suffix[1:].partition("-")[0]))
    return int(re.findall(r"^(?:summary|totals): (\d+)", newest.read_text(), re.MULTILINE)[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=COUNTED, help=f"how many of each kind are counted (default: {COUNTED})")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: nothing is counted", file=sys.stderr)
        return 1
    found = count_instructions(given.requests)
    for kind, thousands in found.items():
        print(f"{kind:36} {thousands:9,.0f} thousand  {thousands / found[REPEATED]:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
