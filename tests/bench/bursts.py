"""What two routers cost under the same load, driven in turn by short bursts: CPU for a request or a token, time to the first token."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count as count_from
from itertools import cycle, islice, repeat
from typing import Protocol

from tests.bench.load import ask_over, body_of, listen, request_of
from tests.bench.once import ONCE
from tests.bench.processes import Process
from tests.bench.upstream import END, PULL

STREAMS = 16
PAIRS = 2
TURNS = 4
"""How often the order of four bursts is gone through for one pair."""
WARM_SECONDS = 0.1

_numbers = cycle(range(END))
_sessions = count_from(1)


@dataclass(frozen=True, slots=True)
class Router:
    """One version, running."""

    process: Process
    port: int
    upstream_port: int


Order = tuple[str, str, str, str]
Taken = list[tuple[str, float]]
"""What each version took, by the version's name, as often as there are pairs."""
Measure = Callable[[dict[str, Router], Order, float], Awaitable[Taken]]


class Load(Protocol):
    """Work for one router that runs for a while and then rests."""

    done: int

    async def run(self, seconds: float) -> None: ...


def cpu_under(start: Callable[[Router], AbstractAsyncContextManager[Load]]) -> Measure:
    """CPU in µs for a unit of what a load has done, with both routers loaded in turn."""

    async def measure(routers: dict[str, Router], order: Order, seconds: float) -> Taken:
        async with AsyncExitStack() as stack:
            loads = {version: await stack.enter_async_context(start(routers[version])) for version in order[:2]}
            for load in loads.values():
                await load.run(WARM_SECONDS)
            taken = []
            for _ in range(PAIRS):
                # The clocks are read around all the bursts: what a router writes to its ledger a little later counts too.
                before = {version: (routers[version].process.cpu_nanoseconds(), loads[version].done) for version in loads}
                for version in order * TURNS:
                    await loads[version].run(seconds / TURNS / 2)
                for version, (nanoseconds, done) in before.items():
                    spent = routers[version].process.cpu_nanoseconds() - nanoseconds
                    taken.append((version, spent / (loads[version].done - done) / 1e3))
            return taken

    return measure


async def time_to_first_token(routers: dict[str, Router], order: Order, seconds: float) -> Taken:
    """The median in ms, of one stream after another, each on the other router or the same as `order` says."""
    request, taken = request_of(body_of(600, tokens=2)), []
    for _ in range(PAIRS):
        firsts: dict[str, list[float]] = {version: [] for version in order[:2]}
        until = time.monotonic() + 2 * seconds
        while time.monotonic() < until:
            for version in order:
                await listen(routers[version].port, request, lambda lag: None, firsts[version])
        taken += [(version, statistics.median(times) * 1e3) for version, times in firsts.items()]
    return taken


class Callers:
    """Callers that ask again as soon as they are answered."""

    def __init__(self, connections: list, make: Callable[[], Iterator[bytes]]) -> None:
        self._callers = [(*connection, make()) for connection in connections]
        self._latencies: list[float] = []

    @property
    def done(self) -> int:
        return len(self._latencies)

    async def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(*(ask_over(*caller, until, self._latencies) for caller in self._callers))


def repeated_requests(size: int, count: int = 8) -> Measure:
    """CPU for the same request again and again, from `count` callers. A burst lasts until the last of them is answered."""
    request = request_of(body_of(size))
    return cpu_under(lambda router: callers(router, lambda: repeat(request), count))


def requests_sent_once(kind: str, count: int = 8) -> Measure:
    """CPU for requests of which no two are equal, whichever router they go to."""
    return cpu_under(lambda router: callers(router, lambda: ONCE[kind](_sessions), count))


@asynccontextmanager
async def callers(router: Router, make: Callable[[], Iterator[bytes]], count: int) -> AsyncIterator[Callers]:
    connections = [await asyncio.open_connection("127.0.0.1", router.port, limit=1 << 20) for _ in range(count)]
    try:
        # The first request with a long text takes many times as long as the next, and callers at once would all be the first.
        await Callers(connections[:1], make).run(0.001)
        yield Callers(connections, make)
    finally:
        for _, writer in connections:
            writer.close()


class Streams:
    """Streams that get their next token when the last one has arrived: a slow moment cannot make one piece of two tokens."""

    def __init__(self, upstream: asyncio.StreamWriter) -> None:
        self._upstream = upstream
        self._waiting: set[int] = set()
        self._is_running = False
        self._all_wait = asyncio.Event()
        self.done = 0

    def hear(self, number: int) -> None:
        self.done += 1
        if self._is_running:
            self._upstream.write(bytes([number]))
            return
        self._waiting.add(number)
        if len(self._waiting) == STREAMS:
            self._all_wait.set()

    async def run(self, seconds: float) -> None:
        await self._all_wait.wait()
        self._is_running = True
        self._all_wait.clear()
        self._upstream.write(bytes(self._waiting))
        self._waiting.clear()
        await asyncio.sleep(seconds)
        self._is_running = False
        await self._all_wait.wait()

    def end(self) -> None:
        self._upstream.write(bytes(number | END for number in self._waiting))


def streamed_tokens(dialect: str) -> Measure:
    return cpu_under(lambda router: streams(router, dialect))


@asynccontextmanager
async def streams(router: Router, dialect: str) -> AsyncIterator[Streams]:
    _, upstream = await asyncio.open_connection("127.0.0.1", router.upstream_port)
    upstream.write(PULL)
    load = Streams(upstream)
    async with asyncio.TaskGroup() as tasks:
        for number in islice(_numbers, STREAMS):
            request = request_of(body_of(600, tokens=1, dialect=dialect, pull=number), dialect)
            tasks.create_task(listen(router.port, request, lambda _, number=number: load.hear(number), []))
        yield load
        load.end()
    upstream.close()
