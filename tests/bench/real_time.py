"""`python -m tests.bench real_time`: what one socket saves an agent that works over a link of 40 ms and 20 Mbit/s.

The same tool loop goes to the model directly, and through Tandem over HTTP, over HTTP from stored responses, and over a socket.
Ratios compare the socket with both kinds of HTTP; the machine's own speed is in none of them but CPU per token, for which all take
turns.
"""

import asyncio
import json
import math
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct
from websockets.asyncio.client import connect

from tests.bench.link import Link, open_link
from tests.bench.processes import Process, interpreter, say, start_tandem
from tests.bench.talk import Talk, plan
from tests.bench.tool_loop import ROUNDS, HttpAgent, SocketAgent, StoringHttpAgent, Trip, body_of, first_items, run

ROUND_TRIP_SECONDS = 0.04
BITS_PER_SECOND = 20e6
UNSHAPED = {"round_trip_seconds": 0.0, "bits_per_second": 1e12}
INTERRUPTS = 200
BURST_STREAMS, BURST_TOKENS, BURST_RATE, BURSTS = 8, 1_000, 500, 3
CONFIG = """
ledger: {{path: bench.db}}
tiers:
  fast: {{targets: [{{name: quick, adapter: openai_http, dialect: responses, base_url: "{url}", model: m, window_tokens: 400000}}]}}
  deep: {{targets: [{{name: thorough, adapter: openai_http, dialect: responses, base_url: "{url}", model: m, window_tokens: 400000}}]}}
"""


class Bar(Struct, frozen=True):
    """What a figure of the socket must be, against the same figure over HTTP."""

    name: str
    title: str
    most: float
    most_to_stored: float
    """The same against HTTP that goes on from a stored response (`previous_response_id`) and sends what is new, too."""


BARS = (
    Bar("overhead_ms", "round trip beyond the link's 40 ms, ms", 0.20, 1.10),
    Bar("bytes_up", "bytes that the client sends over the loop", 0.10, 1.00),
    Bar("wire_bytes", "bytes on the wire for a token, beyond its JSON", 0.70, 0.70),
    Bar("first_token_ms", "time to first token beyond the model's, ms", 0.50, 1.10),
    Bar("loop_ms", f"whole loop of {ROUNDS} tool calls, ms", 0.75, 1.05),
    Bar("cpu_us", "CPU of Tandem for a token, µs", 1.5, 1.5),
)
MOST_SILENCE_MS = 200.0


class Upstream:
    """The model, in this process: it knows when each request had arrived, and when its caller had left."""

    def __init__(self) -> None:
        self.arrivals: list[float] = []
        self.departures: asyncio.Queue[float] = asyncio.Queue()
        self.port = 0

    async def start(self) -> asyncio.Server:
        def connection() -> Talk:
            return Talk(lambda at, size: self.arrivals.append(at), self.departures.put_nowait)

        server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server


@asynccontextmanager
async def http_agent(port: int, kind: type[HttpAgent] = HttpAgent) -> AsyncIterator[HttpAgent]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        yield kind(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def socket_agent(port: int) -> AsyncIterator[SocketAgent]:
    url = f"ws://127.0.0.1:{port}/v1/responses"
    async with connect(url, compression=None, proxy=None, max_size=None, ping_interval=None) as socket:
        yield SocketAgent(socket)


Agents = Callable[[int], object]


async def measure_loop(upstream: Upstream, port: int, agents: Agents) -> dict[str, float]:
    """The loop over the link. A round trip's overhead is both ways of it: to the model's last byte, and of a token back."""
    async with open_link(port, round_trip_seconds=ROUND_TRIP_SECONDS, bits_per_second=BITS_PER_SECOND) as link:
        async with agents(link.port) as agent:
            seen = len(upstream.arrivals)
            trips = await run(agent.ask)
        arrivals = upstream.arrivals[seen:]
        overheads = [overhead_of(trip, arrived) for trip, arrived in zip(trips, arrivals, strict=True)]
        return {
            "overhead_ms": statistics.mean(overheads) * 1e3,
            "bytes_up": link.up.bytes,
            "first_token_ms": (statistics.mean(overheads) + ROUND_TRIP_SECONDS) * 1e3,
            "loop_ms": (trips[-1].ended - trips[0].sent) * 1e3,
        }


def overhead_of(trip: Trip, arrived: float) -> float:
    return (arrived - trip.sent) + (trip.first_token - trip.first_token_made) - ROUND_TRIP_SECONDS


async def wire_bytes(port: int, agents: Agents) -> float:
    """Bytes for one token beyond the JSON of its event: what a long answer has more of than a short one."""

    async def measure(link: Link, tokens: int) -> int:
        before = link.down.bytes
        async with agents(link.port) as agent:
            trip = await agent.whole(words_of(agent, tokens=tokens, per_second=2_000))
        return link.down.bytes - before - trip.json_bytes

    async with open_link(port, **UNSHAPED) as link:
        short, long = await measure(link, 100), await measure(link, 600)
    return (long - short) / 500


def words_of(agent: object, **planned: int) -> bytes:
    envelope = {"type": "response.create"} if isinstance(agent, SocketAgent) else {"stream": True}
    return body_of(first_items(plan(**planned)), **envelope)


async def cpu_per_token(tandem: Process, port: int, agents: Agents) -> float:
    """Microseconds of Tandem's process for a token, over many tokens that come one at a time."""

    async def stream() -> int:
        async with agents(port) as agent:
            return (await agent.whole(words_of(agent, tokens=BURST_TOKENS, per_second=BURST_RATE))).tokens

    before = tandem.cpu_nanoseconds()
    tokens = sum(await asyncio.gather(*(stream() for _ in range(BURST_STREAMS))))
    return (tandem.cpu_nanoseconds() - before) / tokens / 1e3


async def silences(upstream: Upstream, port: int) -> list[float]:
    """Milliseconds from an interrupt, sent over the link, to the moment at which the model knows that it was left."""
    found = []
    endless = {"tokens": 2, "per_second": 0}
    interrupts = {"type": "response.create", "client_metadata": {"x-tandem-busy": "interrupt"}}
    shaped = open_link(port, round_trip_seconds=ROUND_TRIP_SECONDS, bits_per_second=BITS_PER_SECOND)
    async with shaped as link, socket_agent(link.port) as agent:
        while not upstream.departures.empty():
            upstream.departures.get_nowait()
        await agent.socket.send(words_of(agent, **endless), text=True)
        for _ in range(INTERRUPTS):
            while b"output_text.delta" not in await agent.socket.recv(decode=False):
                pass
            sent = time.monotonic()
            await agent.socket.send(body_of(first_items(plan(**endless)), **interrupts), text=True)
            left = await asyncio.wait_for(upstream.departures.get(), 5)
            found.append((left - sent) * 1e3)
    return sorted(found)


async def measure(folder: Path) -> dict[str, dict[str, float]]:
    """Every figure once, by the way that was taken."""
    upstream = Upstream()
    server = await upstream.start()
    starting = asyncio.to_thread(start_tandem, upstream.port, folder, config=CONFIG)
    tandem, port, _ = await starting
    storing_agent = partial(http_agent, kind=StoringHttpAgent)
    ways: dict[str, Agents] = {"http": http_agent, "stored": storing_agent, "socket": socket_agent}
    try:
        say("loop, directly")
        found = {"direct": await measure_loop(upstream, upstream.port, http_agent)}
        for name, agents in ways.items():
            say(f"loop, {name} through Tandem")
            found[name] = await measure_loop(upstream, port, agents)
            found[name]["wire_bytes"] = await wire_bytes(port, agents)
        say("CPU for a token")
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(BURSTS):
            for name, agents in ways.items():
                costs[name].append(await cpu_per_token(tandem, port, agents))
        for name in ways:
            found[name]["cpu_us"] = min(costs[name])
        say("interrupts")
        found["socket"]["silence_ms"] = (await silences(upstream, port))[math.ceil(INTERRUPTS * 0.99) - 1]
    finally:
        tandem.stop()
        server.close()
    return found


def show(found: dict[str, dict[str, float]]) -> list[str]:
    """Print the table, and answer what was missed."""
    missed = []
    ways = ("direct", "http", "stored", "socket")
    heading = "".join(f"{way:>13}" for way in ways)
    print(f"{'real time':<50}{heading}{'ratio':>8}  bar{'to stored':>14}")
    for bar in BARS:
        cells = "".join(f"{found[way][bar.name]:>13,.1f}" if bar.name in found[way] else f"{'':>13}" for way in ways)
        ratio = found["socket"][bar.name] / found["http"][bar.name]
        to_stored = found["socket"][bar.name] / found["stored"][bar.name]
        is_missed = ratio > bar.most or to_stored > bar.most_to_stored
        bars = f"{ratio:>8.2f}  ≤ {bar.most:.2f}{to_stored:>8.2f}  ≤ {bar.most_to_stored:.2f}"
        print(f"{bar.title:<50}{cells}{bars}{'  missed' if is_missed else ''}")
        missed += [bar.title] if is_missed else []
    silence = found["socket"]["silence_ms"]
    is_missed = silence > MOST_SILENCE_MS
    title = "interrupt to the model's silence, p99, ms"
    print(f"{title:<50}{'':>39}{silence:>13,.1f}{'':>8}  ≤ {MOST_SILENCE_MS:g}{'  missed' if is_missed else ''}")
    return [*missed, title] if is_missed else missed


def main(json_file: str | None = None) -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder)))
    missed = show(found)
    print(f"\nratio: socket against http. Measured with {interpreter()}")
    print(f"missed: {'; '.join(missed)}" if missed else "nothing is missed")
    if json_file:
        Path(json_file).write_text(json.dumps(found, indent=2))
    return 1 if missed else 0
