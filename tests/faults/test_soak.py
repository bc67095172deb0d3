"""A real `tandem serve` with a breaking upstream and breaking callers, all at once, for seconds.

Afterwards every request has its answer or its close and one true entry, and the process is clean.
"""

import asyncio
import collections
import contextlib
import itertools
import os
import re
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.soak.faulty import (
    ABANDONED,
    BAD_BODIES,
    CUT,
    FAULTS,
    GIVEN_UP,
    PATHS,
    REFUSED,
    SERVED,
    TERMINAL,
    ask_for,
    break_as_asked,
    one_target_each,
)
from tests.tools.http import Reply, call, request_bytes
from tests.tools.raw import Caller
from tests.tools.running import read_entries
from tests.tools.upstream import Upstream
from tests.tools.waiting import by_the_clock, until

KEY = "sk-canary-of-the-soak"
AT_ONCE = 40
STRAIGHT = [*zip(PATHS, PATHS, strict=True)]
BRIDGED = [("responses", "chat"), ("messages", "responses"), ("chat", "messages")]
"""The caller's dialect and the target's. Every fault is met on one of either."""


class Process:
    def __init__(self, folder: Path, process: asyncio.subprocess.Process, port: int) -> None:
        self.folder, self.process, self.port = folder, process, port

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory_mb(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024


@contextlib.asynccontextmanager
async def serving(folder: Path, config: str, *, on_uvloop: bool = True) -> AsyncIterator[Process]:
    (folder / "config.yaml").write_text(config)
    if not on_uvloop:
        (folder / "uvloop.py").write_text("raise ImportError")
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "router.cli", "serve", "--port", "0", "--log", "json"),
            cwd=folder,
            env={**os.environ, "SOAK_KEY": KEY, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
            stderr=log,
        )
    try:
        await until(lambda: b"server.started" in (folder / "log").read_bytes(), 60)
        port = int(re.search(rb"http://127\.0\.0\.1:(\d+)", (folder / "log").read_bytes())[1])
        yield Process(folder, process, port)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Soak:
    """Requests with unique names and expected outcomes."""

    def __init__(self, port: int, upstream: Upstream) -> None:
        self._port, self._upstream, self._numbers = port, upstream, itertools.count()
        self._places = asyncio.Semaphore(AT_ONCE)
        self.expected: dict[str, str] = {}
        self.wrong: list[str] = []

    def name(self, target: str, outcome: str) -> str:
        name = f"{target}-{next(self._numbers)}"
        self.expected[name] = outcome
        return name

    async def read(self, caller: str, target: str, fault: str, *, is_streaming: bool) -> None:
        """Ask for an answer that breaks so, and read it to its end."""
        outcome = FAULTS[fault].outcome(is_streaming=is_streaming, is_bridged=caller != target)
        if outcome is None:
            return
        name = self.name(f"{target}-hasty" if fault in GIVEN_UP else target, outcome)
        async with self._places:
            reply = await call(self._port, PATHS[caller], ask_for(caller, name, fault, is_streaming=is_streaming))
        if not _fits(reply, outcome):
            self.wrong.append(f"{name} {caller} {fault} {is_streaming=}: {outcome} with {reply.status} {reply.is_whole=}")

    async def leave(self, caller: str, target: str, fault: str, after: bytes, outcome: str) -> None:
        """Hang up once these bytes are here."""
        name = self.name(target, outcome)
        async with self._places, Caller(self._port) as client:
            await client.send(request_bytes(PATHS[caller], ask_for(caller, name, fault, is_streaming=True)))
            if after:
                await asyncio.wait_for(client.reader.readuntil(after), 30)
            else:
                await until(lambda: any(f"as {name},".encode() in seen.body for seen in self._upstream.seen))

    async def send_badly(self, caller: str, body: bytes) -> None:
        async with self._places:
            reply = await call(self._port, PATHS[caller], body)
        if reply.status != 400 or "x-tandem-request-id" not in reply.headers:
            self.wrong.append(f"{body[:60]!r}: {reply.status}")

    async def run(self) -> None:
        work = [
            self.read(*pair, fault, is_streaming=is_streaming)
            for number, fault in enumerate(FAULTS)
            for pair in (STRAIGHT[number % 3], BRIDGED[number % 3])
            for is_streaming in (True, False)
        ]
        for caller, target in STRAIGHT + BRIDGED:
            work += [
                self.leave(caller, target, "silence", b"", ABANDONED),
                self.leave(caller, target, "stall", b"a small", ABANDONED),
                self.leave(caller, target, "linger", TERMINAL[caller], SERVED),
            ]
        work += [self.send_badly(caller, body) for caller in PATHS for body in BAD_BODIES]
        await asyncio.gather(*work)


def _fits(reply: Reply, outcome: str) -> bool:
    if outcome == SERVED:
        return reply.status == 200 and reply.is_whole
    if outcome == CUT:
        return reply.status == 200 and not reply.is_whole
    return reply.status >= 400 or not reply.is_whole


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted by /proc")
async def test_whatever_breaks_every_request_has_its_one_true_end_and_nothing_is_left_over(upstream, tmp_path):
    upstream.scripts = [break_as_asked]
    async with serving(tmp_path, one_target_each(upstream.base_url, "env:SOAK_KEY", 200)) as tandem:
        await call(tandem.port, "/healthz")
        await call(tandem.port, PATHS["chat"], {"model": "spare", "messages": [{"role": "user", "content": "hello"}]})
        files, memory = tandem.open_files(), tandem.memory_mb()
        soak = Soak(tandem.port, upstream)

        await soak.run()

        await upstream.stop()
        await until(lambda: tandem.open_files() <= files)
        assert tandem.memory_mb() - memory < 40
        assert (await call(tandem.port, "/healthz")).status == 200
        tandem.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(tandem.process.wait(), 60) == 0

    assert soak.wrong == []
    entries = collections.defaultdict(list)
    for entry in read_entries(tmp_path / "test.db"):
        entries[entry["model"]].append(entry["outcome"])
    named = {name: outcomes for name, outcomes in entries.items() if name in soak.expected}
    assert named == {name: [outcome] for name, outcome in soak.expected.items()}
    assert entries.pop("spare") == [SERVED]
    others = list(itertools.chain.from_iterable(outcomes for name, outcomes in entries.items() if name not in named))
    assert others == [REFUSED] * len(PATHS) * len(BAD_BODIES)
    lines = (tmp_path / "log").read_text().splitlines()
    log = "\n".join(line for line in lines if "loop.stalled" not in line)  # which names the code that held the loop up
    for secret in (KEY, "Traceback", str(tmp_path), ".py", "fault.caught"):
        assert secret not in log
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("test.db*"))
    assert KEY.encode() not in stored
    assert b"please do it" not in stored


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted by /proc")
@pytest.mark.parametrize("on_uvloop", [True, False], ids=["uvloop", "asyncio"])
async def test_without_free_file_handles_callers_wait_without_a_busy_loop_and_are_served_later(upstream, tmp_path, on_uvloop):
    """O3."""
    upstream.scripts = [break_as_asked]
    config = one_target_each(upstream.base_url, "env:SOAK_KEY", 3)
    async with serving(tmp_path, config, on_uvloop=on_uvloop) as tandem, contextlib.AsyncExitStack() as stack:
        await call(tandem.port, PATHS["chat"], ask_for("chat", "chat-0", "none", is_streaming=False))
        pid, files = tandem.process.pid, tandem.open_files()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files + 20, files + 20))
        callers = [await stack.enter_async_context(Caller(tandem.port)) for _ in range(40)]
        await until(lambda: b"accept.paused" in (tmp_path / "log").read_bytes())
        await callers[0].send(request_bytes(PATHS["chat"], ask_for("chat", "chat-1", "none", is_streaming=False)))
        while_short = await callers[0].reply(30)  # a handle is kept for its target
        before, began = _cpu_seconds(pid), time.monotonic()
        await by_the_clock(1)
        spent, passed = _cpu_seconds(pid) - before, time.monotonic() - began
        for caller in callers[:36]:
            caller.writer.transport.abort()

        await callers[39].send(request_bytes(PATHS["chat"], ask_for("chat", "chat-2", "none", is_streaming=False)))
        waited = await callers[39].reply(30)

    log = (tmp_path / "log").read_text()
    assert (while_short.status, waited.status) == (200, 200)
    assert spent < passed / 2
    assert log.count("accept.paused") == 1
    assert "Traceback" not in log


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
