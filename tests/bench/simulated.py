"""Many routers that share a Valkey server, simulated: the routers' own code, on a loop whose clock jumps to the next timer.

Parts of limits and reports about targets are the real classes. The server is real, too: its scripts are told the time instead of
asking for it. Only the way between them is made up: every trip takes a millisecond. `simulated_jobs.py` has the queue of jobs.
"""

import asyncio
import random
import socket
import statistics
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import hiredis

from router.contract.errors import RateLimited
from router.contract.rights import Rights
from router.contract.shared import OnStoreOutage
from router.dispatch.live.statistics import LiveStatistics
from router.limits.rates import MINUTE_SECONDS, CallerRates
from router.stores.valkey.allowance import ValkeyAllowance
from router.stores.valkey.allowance_scripts import BEAT_SECONDS, FORGET_SECONDS, OWN
from router.stores.valkey.link import Link, Script
from router.stores.valkey.messages import TICK_SECONDS, ValkeyMessages
from tests.tools.loop_clock import JumpingLoop
from tests.tools.valkey import ValkeyServer
from tests.tools.values import make_target

TRIP_SECONDS = 0.001
EPOCH = 1_800_000_000.0
_ASKS_TIME, _TOLD_TIME = "redis.call('TIME')", "{KEYS[#KEYS - 1], KEYS[#KEYS]}"


class SimulatedLoop(JumpingLoop):
    max_jumps = 10_000_000


class Network:
    """The way to the server and back, with counts of what goes over it."""

    def __init__(self, server: ValkeyServer) -> None:
        server.send("FLUSHALL")
        self.terms, self.scripts = server.terms(), dict[str, bytes]()
        self.commands: Counter[str] = Counter()
        """By script or command."""
        self.listening: list[Link] = []
        """Links that messages are delivered to."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(server.socket))
        self._reader = hiredis.Reader()

    def close(self) -> None:
        self._socket.close()

    def load(self, script: Script) -> None:
        if script.digest not in self.scripts:
            assert _ASKS_TIME in script.text
            self.scripts[script.digest] = self.ask("SCRIPT", "LOAD", script.text.replace(_ASKS_TIME, _TOLD_TIME))

    def ask(self, *words: object) -> Any:
        self._socket.sendall(hiredis.pack_command(words))
        while (answer := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(1 << 16))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def serve(self, words: Sequence[Any]) -> Any:
        """Have the server run a command at the simulation's time."""
        if words[0] != "EVALSHA":
            self.commands[words[0]] += 1
            if words[0] != "PUBLISH":
                return self.ask(*words)
            for link in self.listening:
                link._deliver(words[1].encode(), words[2])
            return len(self.listening)
        _, digest, count, *rest = words
        self.commands[digest] += 1
        seconds, fraction = divmod(EPOCH + asyncio.get_running_loop().time(), 1)
        told = (int(seconds), int(fraction * 1e6))
        return self.ask("EVALSHA", self.scripts[digest], count + 2, *rest[:count], *told, *rest[count:])

    def cpu_seconds(self) -> float:
        """The server's own."""
        told = dict(line.split(":") for line in self.ask("INFO", "cpu").decode().split() if ":" in line)
        return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


class _Wire:
    trips, seconds = 0, 0.0

    def __init__(self, network: Network) -> None:
        self._network = network

    def send(self, *words: Any) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def arrive() -> None:
            answer = self._network.serve(words)
            loop.call_later(TRIP_SECONDS / 2, lambda: future.done() or future.set_result(answer))

        loop.call_later(TRIP_SECONDS / 2, arrive)
        return future

    def end(self, reason: str) -> None:
        pass


class SimulatedLink(Link):
    """A router's link over the simulated way."""

    def __init__(self, network: Network) -> None:
        super().__init__(network.terms)
        self._network = network

    async def connect(self) -> None:
        for script in self._scripts:
            self._network.load(script)
        self._wire = _Wire(self._network)  # type: ignore[assignment]
        for call in self._on_up:
            call()

    def die(self) -> None:
        """The process is gone: nothing more is sent or heard."""
        self._wire = None


class Router:
    """What a router shares: its parts of callers' limits, and what it reports of its targets."""

    def __init__(self, network: Network, number: int) -> None:
        clock = asyncio.get_running_loop().time
        self.name, self.link = f"router-{number}", SimulatedLink(network)
        self.rates = CallerRates(clock, ValkeyAllowance(self.link, OnStoreOutage.SHARE, self.name))
        self.live = LiveStatistics(clock)
        self.targets = {name: make_target(name) for name in ("quick", "thorough")}

    def report(self) -> None:
        """Have something to report of each target, as a busy router has, and exchange reports."""
        loop = asyncio.get_running_loop()
        self.live.share(ValkeyMessages(self.link, self.name))
        self.live.statuses(self.targets, loop.time())
        for target in self.targets.values():
            live = self.live.of(target)
            live.queue.open.update({f"{target.name}-{number}": loop.time() for number in range(3)})
            live.pace.begin("first", 1_000, 0.4, loop.time())
            live.pace.add_speed(80.0, loop.time(), is_counted=True)


class Load(NamedTuple):
    """Requests of one caller with a limit."""

    limit: int
    """Requests a minute."""
    offered: float
    """As a multiple of the limit."""
    at_a_tenth: float = 0.0
    """The share of them that a balancer sends to a tenth of the routers. It spreads the others evenly."""


class Served(NamedTuple):
    """What became of a load. What is lost is the share of requests that were refused while the limit had room for them."""

    most_of_limit: float
    """The most of the limit that was served in any 60 seconds."""
    lost: float
    lost_after_deaths: float
    """Until the parts of the routers that died are given to others."""
    lost_later: float


class Limits(NamedTuple):
    served: tuple[Served, ...]
    asks: float
    """Questions to the server for more of a limit, for each request."""
    idle_share: float
    """Of a core of the server, for the routers' presence alone."""
    busy_share: float


_WARM_SECONDS, _LOADED_SECONDS = 65.0, 60.0


class _Caller:
    def __init__(self, name: str, load: Load) -> None:
        self.name, self.load, self.rights = name, load, Rights(requests_per_minute=load.limit)
        self.served: list[float] = []
        self.refused: list[float] = []

    async def offer(self, routers: list[Router], chance: random.Random) -> None:
        """Send requests at random times until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(chance.expovariate(self.load.limit * self.load.offered / MINUTE_SECONDS))
            few = routers[: max(1, len(routers) // 10)]
            router = chance.choice(few if chance.random() < self.load.at_a_tenth else routers)
            loop.create_task(self._send(router))  # noqa: RUF006  it ends within the simulation

    async def _send(self, router: Router) -> None:
        loop = asyncio.get_running_loop()
        try:
            await router.rates.hold(self.name, self.rights, None)
        except RateLimited:
            self.refused.append(loop.time())
        else:
            self.served.append(loop.time())

    def find_lost(self, begin: float, end: float) -> float:
        served, refused = (sum(begin <= at < end for at in times) for times in (self.served, self.refused))
        could = min(served + refused, self.load.limit * (end - begin) / MINUTE_SECONDS)
        return max(0.0, 1 - served / could) if could else 0.0

    def find_most(self) -> float:
        window, most = deque[float](), 0
        for at in self.served:
            window.append(at)
            while window[0] <= at - MINUTE_SECONDS:
                window.popleft()
            most = max(most, len(window))
        return most / self.load.limit


async def _share_limits(network: Network, count: int, loads: Sequence[Load], deaths: int, seed: int) -> Limits:
    chance, loop = random.Random(seed), asyncio.get_running_loop()
    routers = [Router(network, number) for number in range(count)]
    for router in routers:  # routers do not start at one instant
        await asyncio.sleep(chance.uniform(0, BEAT_SECONDS / count))
        await router.link.open()
        await router.rates.hold("idle", Rights(requests_per_minute=count * 100), None)
    await asyncio.sleep(5.0)
    before, since = network.cpu_seconds(), loop.time()
    await asyncio.sleep(5.0)
    idle_share = (network.cpu_seconds() - before) / (loop.time() - since)
    callers = [_Caller(f"caller-{number}", load) for number, load in enumerate(loads)]
    sending = [loop.create_task(caller.offer(routers, chance)) for caller in callers]
    await asyncio.sleep(_WARM_SECONDS)
    began, asks, before = loop.time(), network.commands[OWN.digest], network.cpu_seconds()
    done = sum(len(caller.served) + len(caller.refused) for caller in callers)
    await asyncio.sleep(_LOADED_SECONDS)
    died, asks = loop.time(), network.commands[OWN.digest] - asks
    busy_share = (network.cpu_seconds() - before) / (died - began)
    done = sum(len(caller.served) + len(caller.refused) for caller in callers) - done
    chance.shuffle(routers)
    for _ in range(deaths):
        routers.pop().link.die()
    await asyncio.sleep(FORGET_SECONDS + MINUTE_SECONDS + 5.0 if deaths else 0.0)
    for task in sending:
        task.cancel()
    spans = (began, died), (died, died + FORGET_SECONDS), (loop.time() - MINUTE_SECONDS, loop.time())
    found = tuple(Served(caller.find_most(), *(caller.find_lost(*span) for span in spans)) for caller in callers)
    return Limits(found, asks / done, idle_share, busy_share)


class Pulses(NamedTuple):
    """How late other routers know that a target asked to be left alone, and what hearing of it costs each of them."""

    median_seconds: float
    last_seconds: float
    cpu_share: float
    """Of a core of each router."""
    kb_a_second: float
    """Received by each router."""


_LISTENERS, _PULSES = 8, 12


async def _report_targets(network: Network, count: int, seed: int) -> Pulses:
    chance, loop = random.Random(seed), asyncio.get_running_loop()
    routers = [Router(network, number) for number in range(count)]
    for router in routers:
        await asyncio.sleep(chance.uniform(0, TICK_SECONDS / count))
        router.report()
        await router.link.open()
    heard, late = Counter[str](), []
    for router in routers[-_LISTENERS:]:
        _measure(router.link, heard)
        network.listening.append(router.link)
    await asyncio.sleep(2 * TICK_SECONDS)
    heard.clear()
    began, speaker = loop.time(), routers[0]
    listeners = [router for router in routers[-_LISTENERS:] if router is not speaker]
    for _ in range(_PULSES):
        await asyncio.sleep(chance.uniform(1.0, 2.0))
        speaker.live.of(speaker.targets["thorough"]).circuit.close(since := loop.time(), 0.8)
        missing = set(listeners)
        while missing:
            await asyncio.sleep(0.005)
            told = {one for one in missing if one.live.statuses(one.targets, loop.time())["thorough"].closed_seconds > 0}
            late += [loop.time() - since] * len(told)
            missing -= told
    seconds, many = loop.time() - began, len(network.listening)
    share, received = heard["nanoseconds"] / 1e9 / many / seconds, heard["bytes"] / 1e3 / many / seconds
    return Pulses(statistics.median(late), max(late), share, received)


def _measure(link: Link, heard: Counter[str]) -> None:
    """Count the bytes of what a link delivers, and the CPU of taking it."""
    for channel, take in tuple(link._subscribers.items()):

        def measured(message: bytes, take: Any = take) -> None:
            before = time.thread_time_ns()
            take(message)
            heard["nanoseconds"] += time.thread_time_ns() - before
            heard["bytes"] += len(message)

        link.subscribe(channel.decode(), measured)


def share_limits(server: ValkeyServer, count: int, loads: Sequence[Load], deaths: int = 0, seed: int = 1) -> Limits:
    """Loads on limits that `count` routers share, of which some die after two minutes."""
    network = Network(server)
    try:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            return runner.run(_share_limits(network, count, loads, deaths, seed))
    finally:
        network.close()


def report_targets(server: ValkeyServer, count: int, seed: int = 1) -> Pulses:
    network = Network(server)
    try:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            return runner.run(_report_targets(network, count, seed))
    finally:
        network.close()
