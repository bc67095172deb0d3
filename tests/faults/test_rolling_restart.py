"""Routers behind a balancer that are restarted one after the other under load: nobody may notice.

`python -m tests.faults.test_rolling_restart 60 100` restarts three routers for 60 seconds under 100 requests a second: sessions
and chains of responses that wander, WebSockets, streams of a few seconds, and `Idempotency-Key`s. It prints what failed.
`--passive` has the balancer ask nobody whether it is ready, as nginx does not.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("asyncpg")
pytest.importorskip("hiredis")

from websockets.exceptions import WebSocketException

from tests.faults import chains, wandering
from tests.faults.balancer import Balancer, balancer_of
from tests.faults.chains import POSTGRES, VALKEY, Chains
from tests.faults.wandering import SECRET, Trial, write_frames
from tests.tools.fleet import Router, routers_of
from tests.tools.http import call
from tests.tools.postgres import PostgresServer, find_binaries
from tests.tools.upstream import CHAT_STREAM_HEAD, Seen, Upstream, Wire, answer_json
from tests.tools.valkey import ValkeyServer, find_server
from tests.tools.waiting import by_the_clock, later, until

RESPONSES = "/v1/responses"
WALKERS = {"sessions": 10, "chains": 10, "streams": 12, "keys": 4}
PIECES = 10
_FAILURES = (OSError, AssertionError, asyncio.IncompleteReadError, WebSocketException, TimeoutError, ValueError, KeyError)


@dataclass(frozen=True)
class Order:
    seconds: float
    rate: float
    """Requests a second."""
    listens_seconds: float
    drain_seconds: float
    stream_seconds: float
    """Duration of a slow stream."""
    probe_seconds: float | None
    """How often the balancer asks for `/readyz`; None: never."""
    routers: int = 3
    least_restarts: int = 3


class Pace:
    """Limits the rate of requests."""

    def __init__(self, rate: float) -> None:
        self._step, self._next, self.begun = 1 / rate, 0.0, 0

    async def wait(self) -> None:
        now = asyncio.get_running_loop().time()
        self._next = max(self._next + self._step, now - 1)  # catches up with one lost second at most
        self.begun += 1
        await by_the_clock(self._next - now)


class Host:
    """A target for sessions, chains, keys and slow streams."""

    def __init__(self, tier: str, trial: Trial, stream_seconds: float) -> None:
        self._session, self._chain = wandering.Host(tier, trial), chains.Host("responses", tier)
        self._pause, self.keyed = stream_seconds / PIECES, Counter[str]()

    async def __call__(self, wire: Wire, seen: Seen) -> None:
        asked = seen.json
        if "session " in str(asked.get("tools")):
            await self._session(wire, seen)
        elif (words := str(asked["input"])).find("a slow stream") >= 0:
            await self._stream(wire)
        elif "keyed" in words:
            self.keyed[next(word for word in words.split("'") if word.startswith("keyed"))] += 1
            await answer_json(_write_answer("done"))(wire, seen)
        else:
            await self._chain(wire, seen)

    async def _stream(self, wire: Wire) -> None:
        frames = list(write_frames(_write_answer("piece " * PIECES)))
        await wire.send(CHAT_STREAM_HEAD)
        await wire.chunk(b"".join(frames[:-4]))
        for _ in range(PIECES):
            await by_the_clock(self._pause)
            await wire.chunk(b": still here\n\n")
        await wire.chunk(b"".join(frames[-4:]))
        await wire.end_chunks()


def _write_answer(text: str) -> dict:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part], "status": "completed"}
    usage = {"input_tokens": 90, "output_tokens": 9, "total_tokens": 99}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**head, "output": [message], "usage": usage}


@dataclass
class Roll:
    """Callers of a balancer while its routers are restarted."""

    order: Order
    trial: Trial
    hosts: list[Host]
    balancer: Balancer
    pace: Pace
    faults: list[str] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    """Seconds from the signal until the balancer uses the router again."""
    streams: int = 0
    keys: int = 0
    seconds: float = 0.0
    is_over: bool = False

    async def run(self, routers: list[Router]) -> None:
        """Restart one router after another until the time is over."""
        self._chains = Chains([self.balancer.port], pace=self.pace.wait)
        self._numbers = itertools.count()
        kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "sessions": self._walk_session,
            "chains": self._walk_chain,
            "streams": self._ask_stream,
            "keys": self._ask_twice,
        }
        began = time.monotonic()
        load = [later(self._go_on(name, kinds[name])) for name, count in WALKERS.items() for _ in range(count)]
        await until(lambda: self.pace.begun > 2 * len(load), 60)
        for router in itertools.cycle(routers):
            await self._restart(router)
            if time.monotonic() - began > self.order.seconds and len(self.restarts) >= self.order.least_restarts:
                break
        self.is_over = True
        await asyncio.gather(*load)
        self.seconds = time.monotonic() - began
        self.faults += [*self.trial.faults, *self._chains.faults]
        self.faults += [f"{count} × {name}" for name, count in self.balancer.failures.items()]
        called = sum((host.keyed for host in self.hosts), Counter())
        self.faults += [f"{key}: a target was called {count} times" for key, count in called.items() if count != 1]

    async def _restart(self, router: Router) -> None:
        began, backend = time.monotonic(), self.balancer.backend_of(router.port)
        if (code := await router.stop()) != 0:
            self.faults.append(f"exit status {code}")
        log = (router.folder / "log").read_text()
        self.faults += [f"{word} in the log: {log[-2000:]}" for word in ("Traceback", "fault.caught") if word in log]
        await router.start()
        served = backend.served
        await until(lambda: backend.served > served, 60)
        self.restarts.append(time.monotonic() - began)

    async def _go_on(self, name: str, act: Callable[[], Awaitable[None]]) -> None:
        while not self.is_over:
            try:
                await act()
            except _FAILURES as error:
                self.faults.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")

    async def _walk_session(self) -> None:
        await self.trial.run([self.balancer], 1, 6)

    async def _walk_chain(self) -> None:
        await self._chains.run(1, 6, next(self._numbers))

    async def _ask_stream(self) -> None:
        await self.pace.wait()
        body = {"model": "auto", "input": "a slow stream", "stream": True, "store": False}
        reply = await call(self.balancer.port, RESPONSES, body)
        self.streams += 1
        assert reply.status == 200, f"a slow stream: {reply.status} {reply.body[:300]!r}"
        assert reply.is_whole, "a slow stream was cut"
        assert b"response.completed" in reply.body, f"a slow stream failed: {reply.body[-300:]!r}"

    async def _ask_twice(self) -> None:
        """One key twice, mostly at two routers at once."""
        await self.pace.wait()
        name = f"keyed{next(self._numbers)}"
        body, headers = {"model": "auto", "input": name, "store": False}, {"idempotency-key": name}
        replies = await asyncio.gather(*(call(self.balancer.port, RESPONSES, body, headers) for _ in range(2)))
        self.keys += 1
        assert [reply.status for reply in replies] == [200, 200], f"{name}: {[reply.body[:200] for reply in replies]}"
        assert replies[0].body == replies[1].body, f"{name}: two answers"


def find_uncopied(folder: Path, copied: list[str]) -> list[str]:
    """Ledger rows that are not in the database exactly once."""
    rows: list[str] = []
    for path in folder.glob("router-*/test.db"):
        with contextlib.closing(sqlite3.connect(path)) as database:
            rows += [name for (name,) in database.execute("SELECT id FROM entries")]
    twice = [name for name, count in Counter(copied).items() if count > 1]
    return [f"not in the database: {sorted(set(rows) - set(copied))[:5]}"] * (set(rows) != set(copied)) + [
        f"twice in the database: {name}" for name in twice
    ]


@contextlib.asynccontextmanager
async def hosts_of(trial: Trial, stream_seconds: float) -> AsyncIterator[tuple[list[Host], list[str]]]:
    hosts, upstreams = [Host(tier, trial, stream_seconds) for tier in ("fast", "deep")], [Upstream(), Upstream()]
    for host, upstream in zip(hosts, upstreams, strict=True):
        upstream.scripts = [host]
        await upstream.start()
    try:
        yield hosts, [upstream.base_url for upstream in upstreams]
    finally:
        for upstream in upstreams:
            await upstream.stop()


async def roll(folder: Path, order: Order, valkey: ValkeyServer, postgres: PostgresServer) -> Roll:
    """Run a trial. `faults` has what went wrong."""
    pace = Pace(order.rate)
    trial, url = Trial(pace=pace.wait), await postgres.create()
    variables = {"TANDEM_VALKEY_URL": valkey.url(), "TANDEM_POSTGRES_URL": url, "TANDEM_SHARED_SECRET": SECRET}
    async with hosts_of(trial, order.stream_seconds) as (hosts, addresses):
        config = wandering.CONFIG.format(*addresses)
        config += f"shared: {{{VALKEY}, {POSTGRES}, secret: env:TANDEM_SHARED_SECRET}}\n"
        config += f"server: {{stop_listening_after_seconds: {order.listens_seconds}}}\n"
        config += f"limits: {{drain_seconds: {order.drain_seconds}}}\n"
        async with routers_of(order.routers, folder, config, variables) as routers:
            async with balancer_of([router.port for router in routers], order.probe_seconds) as balancer:
                rolled = Roll(order, trial, hosts, balancer, pace)
                await rolled.run(routers)
            codes = await asyncio.gather(*(router.stop() for router in routers))
    rolled.faults += [f"exit status {code} at the end" for code in codes if code]
    rolled.faults += find_uncopied(folder, [name for (name,) in await postgres.ask(url, "SELECT id FROM tandem.entries")])
    return rolled


async def test_a_router_is_restarted_under_load_and_no_request_fails(tmp_path, valkey, postgres):
    """With a balancer that learns of it by a refused connection, the harder case."""
    times = {"listens_seconds": 0.1, "drain_seconds": 600, "stream_seconds": 0.3, "probe_seconds": None}

    rolled = await roll(tmp_path, Order(0, 60, **times, routers=2, least_restarts=1), valkey, postgres)

    assert rolled.faults == []
    assert min(rolled.trial.requests, rolled.streams, rolled.keys) > 0


async def _report(order: Order) -> int:
    valkey, postgres = ValkeyServer(find_server() or ""), PostgresServer(find_binaries() or Path())
    try:
        valkey.start()
        postgres.start()
        with tempfile.TemporaryDirectory() as folder:
            os.environ.setdefault("XDG_STATE_HOME", folder)
            rolled = await roll(Path(folder), order, valkey, postgres)
    finally:
        valkey.stop()
        postgres.stop()
    took = sorted(rolled.restarts)
    print(
        f"{rolled.pace.begun} requests in {rolled.seconds:.0f} s ({rolled.pace.begun / rolled.seconds:.0f} a second):", end=" "
    )
    print(
        f"{rolled.trial.requests} of sessions, {rolled._chains.steps} of chains, {rolled.streams} slow streams, {rolled.keys} keys"
    )
    print(f"{len(took)} restarts of {order.routers} routers, {took[0]:.1f} to {took[-1]:.1f} s each")
    for fault in rolled.faults[:20]:
        print(f"  {fault}")
    print(f"{len(rolled.faults)} failed")
    return 1 if rolled.faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=60.0)
    parser.add_argument("rate", type=float, nargs="?", default=100.0, help="requests a second")
    parser.add_argument("--routers", type=int, default=3)
    parser.add_argument("--listens", type=float, default=5.0, help="server.stop_listening_after_seconds")
    parser.add_argument("--drain", type=float, default=30.0, help="limits.drain_seconds")
    parser.add_argument("--stream", type=float, default=3.0, help="how many seconds a slow stream takes")
    parser.add_argument("--probe", type=float, default=1.0, help="seconds between two questions for /readyz")
    parser.add_argument("--passive", action="store_true", help="the balancer asks nobody for /readyz")
    asked = parser.parse_args()
    probe = None if asked.passive else asked.probe
    times = (asked.listens, asked.drain, asked.stream, probe)
    sys.exit(asyncio.run(_report(Order(asked.seconds, asked.rate, *times, asked.routers))))
