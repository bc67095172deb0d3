"""A router stopped under mixed load ends in time, with status 0, and every request has its row.

`python -m tests.faults.test_stopping 100` stops a hundred routers by one signal and a hundred by two, each with a hundred
streams and WebSockets open, and prints what it saw.
"""

import asyncio
import collections
import contextlib
import json
import os
import re
import signal
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.tools.http import Reply, call, read_reply, request_bytes
from tests.tools.raw import Caller
from tests.tools.running import read_entries
from tests.tools.sockets import TERMINAL, Socket, open_socket
from tests.tools.waiting import until

CHAT = "/v1/chat/completions"
BRIEF, ENDLESS = "simulated-deep", "endless"
"""Targets whose answers end within the drain, or do not."""
CONFIG = """
ledger: {{path: test.db}}
limits: {{drain_seconds: {drain_seconds}}}
server: {{stop_listening_after_seconds: {listens_seconds}}}
tiers:
  fast:
    targets:
      - name: simulated-fast
        adapter: simulated
        options: {{ttft_seconds: 0.005, tokens_per_second: 50000, answer_tokens: 20}}
  deep:
    targets:
      - name: simulated-deep
        adapter: simulated
        options: {{ttft_seconds: 0.02, tokens_per_second: {brief_pace}, answer_tokens: 20}}
      - name: endless
        adapter: simulated
        options: {{ttft_seconds: 0.02, tokens_per_second: 4, answer_tokens: 1000}}
"""
SHORT_CALLERS = 4


@dataclass
class Seen:
    code: int | None = None
    seconds: float = 0.0
    """From the last signal to the end."""
    requests: set[str] = field(default_factory=set)
    """Ids of all requests whose answer began."""
    streams: collections.Counter = field(default_factory=collections.Counter)
    sockets: collections.Counter = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)


class Load:
    """Streams, sockets, and repeated requests."""

    def __init__(self, port: int, each: int) -> None:
        self._port, self._each, self.seen = port, each, Seen()
        self._begun, self._stopping = 0, False
        self._answered = 0
        self._tasks: list[asyncio.Task] = []

    async def begin(self) -> None:
        """Return once every answer has begun, sockets are open, and short requests were answered."""
        work = [self._ask_again_and_again() for _ in range(SHORT_CALLERS)]
        for number in range(self._each):
            work.append(self._stream((BRIEF, ENDLESS)[number % 2]))
            work.append(self._hold_socket((None, BRIEF, None, ENDLESS)[number % 4]))
        self._tasks = [asyncio.ensure_future(one) for one in work]  # noqa: TID251  held in the list
        await until(lambda: self._begun == 2 * self._each and self._answered > SHORT_CALLERS, 60)

    async def end(self) -> None:
        await asyncio.wait_for(asyncio.gather(*self._tasks), 60)

    async def _stream(self, target: str) -> None:
        async with Caller(self._port) as caller:
            body = {"model": target, "stream": True, "messages": [{"role": "user", "content": "go on"}]}
            await caller.send(request_bytes(CHAT, body))
            head = await caller.reader.readuntil(b"\r\n\r\n")
            self.seen.requests.add(re.search(rb"x-tandem-request-id: (\S+)", head)[1].decode())
            self._begun += 1
            rest = await caller.closed(60)
            is_whole, is_told = rest.endswith(b"0\r\n\r\n"), b"shutting down" in rest
            self.seen.streams[target, "whole" if is_whole else "told" if is_told else "cut"] += 1

    async def _hold_socket(self, target: str | None) -> None:
        kind = "none"
        async with open_socket(self._port) as socket:
            if target is not None:
                await socket.say("go on", model=target)
                kind = await self._kind_of_next(socket)
            self._begun += 1
            try:
                while True:
                    kind = await self._kind_of_next(socket)
            except ConnectionClosed as closed:
                end = kind.removeprefix("response.") if kind in TERMINAL else "silent"
                self.seen.sockets[target or "idle", end, closed.rcvd.code if closed.rcvd else None] += 1

    async def _kind_of_next(self, socket: Socket) -> str:
        # Longer than other tests wait: this socket is idle until all callers have begun.
        return json.loads(await asyncio.wait_for(socket.connection.recv(), 100))["type"]

    async def _ask_again_and_again(self) -> None:
        """Ask on one connection while it lasts, then on another, until nobody listens. Begun answers must be whole."""
        with contextlib.suppress(ConnectionRefusedError, ConnectionResetError):
            while True:
                async with Caller(self._port) as caller:
                    await self._ask_on(caller)

    async def _ask_on(self, caller: Caller) -> None:
        body = {"model": "fast", "messages": [{"role": "user", "content": "hello"}]}
        while True:
            try:
                await caller.send(request_bytes(CHAT, body))
                reply = await asyncio.wait_for(read_reply(caller.reader), 60)
            except (OSError, asyncio.IncompleteReadError):
                return
            self._note(reply)
            if reply.headers.get("connection") == "close" or not reply.is_whole:
                return

    def _note(self, reply: Reply) -> None:
        self._answered += 1
        self.seen.requests.add(reply.headers["x-tandem-request-id"])
        is_told = reply.status == 503 and b"shutting down" in reply.body
        if not reply.is_whole or (reply.status != 200 and not is_told):
            self.seen.wrong.append(f"{reply.status} {reply.is_whole=} {reply.body[:100]!r}")


@contextlib.asynccontextmanager
async def serving(folder: Path, **settings: float):
    """A router process. Yields it and its port."""
    (folder / "config.yaml").write_text(CONFIG.format(**{"listens_seconds": 0, "brief_pace": 20, **settings}))
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "router.cli", "serve", "--port", "0", "--log", "json"),
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_STATE_HOME": str(folder)},
            stderr=log,
        )
    try:
        await until(lambda: b"server.started" in (folder / "log").read_bytes(), 60)
        yield process, int(re.search(rb"http://127\.0\.0\.1:(\d+)", (folder / "log").read_bytes())[1])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def stop_under_load(folder: Path, each: int, signals: int, drain_seconds: float, brief_pace: float = 20) -> Seen:
    """Stop a router by this many signals, and check its callers and its records."""
    async with serving(folder, drain_seconds=drain_seconds, brief_pace=brief_pace) as (process, port):
        load = Load(port, each)
        await load.begin()
        process.send_signal(signal.SIGTERM)
        if signals == 2:
            await until(lambda: b"server.stopping" in (folder / "log").read_bytes(), 60)
            process.send_signal(signal.SIGTERM)
        began = time.perf_counter()
        seen = load.seen
        seen.code = await asyncio.wait_for(process.wait(), 60)
        seen.seconds = time.perf_counter() - began
        await load.end()
    seen.wrong += find_faults(folder, seen, each)
    return seen


def find_faults(folder: Path, seen: Seen, each: int) -> list[str]:
    """Faults in the ledger or log of an ended router."""
    with contextlib.closing(sqlite3.connect(folder / "test.db")) as database:
        found = [f"integrity: {row}" for (row,) in database.execute("PRAGMA integrity_check") if row != "ok"]
    rows = collections.Counter(row["id"] for row in read_entries(folder / "test.db"))
    found += [f"{request} has no row" for request in seen.requests - rows.keys()]
    found += [f"{request} has {count} rows" for request, count in rows.items() if count != 1]
    if len(rows) < len(seen.requests) + each // 2:  # half of the sockets have a response under way
        found.append(f"{len(rows)} rows of {len(seen.requests)} answers and {each // 2} on sockets")
    log = (folder / "log").read_text()
    found += [f"{word} in the log" for word in ("Traceback", "fault.caught", "ledger.failed") if word in log]
    return found if seen.code == 0 else [*found, f"exit status {seen.code}"]


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_router_that_is_stopped_under_load_ends_with_status_0_and_a_row_for_every_request(tmp_path, signals):
    """O4, O5. The drain is longer than the test may take where a second signal ends it."""
    each, drain_seconds = 12, 3 if signals == 1 else 600
    # Answers are slow enough to be running at the signal, and quick enough to end within the drain.
    seen = await stop_under_load(tmp_path, each, signals, drain_seconds, brief_pace=20 if signals == 1 else 1)

    assert seen.wrong == []
    assert seen.streams[ENDLESS, "whole"] == seen.streams[ENDLESS, "cut"] == 0
    assert seen.sockets["idle", "silent", 1001] == each // 2
    if signals == 1:
        assert seen.streams == {(BRIEF, "whole"): each // 2, (ENDLESS, "told"): each // 2}
        assert seen.sockets[BRIEF, "completed", 1001] == each // 4


async def test_a_router_that_is_stopped_serves_on_while_it_listens_and_says_that_it_is_not_ready(tmp_path):
    """O4. One signal: not ready at once, requests on old and new connections are served, and answers announce the close."""
    async with serving(tmp_path, drain_seconds=600, listens_seconds=600) as (process, port), Caller(port) as old:
        ask = {"model": "fast", "messages": [{"role": "user", "content": "hello"}]}
        ready = await call(port, "/readyz")
        await old.send(request_bytes(CHAT, ask))
        before = await old.reply(30)

        process.send_signal(signal.SIGTERM)
        await until(lambda: b"server.stopping" in (tmp_path / "log").read_bytes())
        await until_not_ready(port)
        stopping, new = await call(port, "/readyz"), await call(port, CHAT, ask)
        await old.send(request_bytes(CHAT, ask))
        after = await old.reply(30)
        rest = await old.closed(30)
        async with open_socket(port) as socket:
            said = await socket.ask("hello", model="fast")
            process.send_signal(signal.SIGINT)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.event()
        code = await asyncio.wait_for(process.wait(), 60)

    assert (ready.status, before.status, before.headers.get("connection")) == (200, 200, None)
    assert (stopping.status, stopping.json) == (503, {"status": "stopping"})
    assert [(one.status, one.headers.get("connection")) for one in (new, after)] == [(200, "close")] * 2
    assert rest == b""
    assert said["status"] == "completed"
    assert closed.value.rcvd.code == 1001
    assert code == 0
    assert [row["outcome"] for row in read_entries(tmp_path / "test.db")] == ["SERVED"] * 4


async def until_not_ready(port: int) -> None:
    """Until answers announce the close, at most 0.1 s after the signal."""
    async with asyncio.timeout(30):
        while (await call(port, "/readyz")).headers.get("connection") != "close":
            pass


async def test_signals_that_come_while_the_router_ends_change_nothing(tmp_path):
    async with serving(tmp_path, drain_seconds=600) as (process, port):
        load = Load(port, 4)
        await load.begin()

        def has_ended_under_signals() -> bool:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGINT)
            return process.returncode is not None

        await until(has_ended_under_signals, 60)
        load.seen.code = process.returncode
        await load.end()

    assert find_faults(tmp_path, load.seen, 4) == []


async def report(rounds: int) -> None:
    """Stop routers by one signal and by two, this many times each."""
    for signals, bound in ((1, 4.0), (2, 2.0)):
        ended: list[Seen] = []
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as place:
                pace = 20 if signals == 1 else 1  # so that answers end within the drain, or not before the second signal
                ended.append(await stop_under_load(Path(place), 100, signals, 2.0, pace))
            for problem in ended[-1].wrong:
                print(f"round {number + 1}: {problem}", flush=True)
            print(f"\r{number + 1} of {rounds}", end="", file=sys.stderr, flush=True)
        streams, sockets = (
            sum((getattr(seen, name) for seen in ended), collections.Counter()) for name in ("streams", "sockets")
        )
        times = sorted(seen.seconds for seen in ended)
        late = sum(seconds > bound for seconds in times)
        print(f"\n{signals} signal(s), {rounds} routers: {sum(seen.code == 0 for seen in ended)} with status 0,", flush=True)
        print(f"  seconds to the end: median {times[rounds // 2]:.2f}, longest {times[-1]:.2f}; {late} took over {bound:g}")
        print(f"  requests answered: {sum(len(seen.requests) for seen in ended)}; problems: {sum(len(s.wrong) for s in ended)}")
        print(f"  streams: {dict(streams)}\n  sockets: {dict(sockets)}", flush=True)


if __name__ == "__main__":
    asyncio.run(report(int(sys.argv[1])))
