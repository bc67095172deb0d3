"""`python -m tests.bench.hostile [attack ...]`: one hostile key next to ten honest ones, in a bit more than a minute.

The honest ones make small requests, five a second each, alone and then under each attack. None may be refused, and their 99th
percentile may be 1.5 times what it is alone. The clock is noisy where the machine has other work: the router's own CPU between
a request and its answer is printed next to it.
"""

import asyncio
import contextlib
import itertools
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.bench.processes import CORES, Process, say, start_tandem
from tests.bench.upstream import FRAME, HEAD, LAST, WHOLE, chunk
from tests.tools.http import call, chat, read_reply, request_bytes
from tests.tools.keyed import Callers
from tests.tools.sockets import open_socket

HONEST, PER_SECOND, SECONDS, MOST_TIMES = 10, 5, 8.0, 1.5
THINK_SECONDS, SLOW_SECONDS = 0.1, 60.0
SLOW, LONG = "SLOW: think for a minute", "LONG: write a great deal"
LONG_TOKENS = 20_000
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
CONFIG = """
ledger: {{path: bench.db}}
keys: {{file: keys.yaml}}
limits: {{max_in_flight: 256, max_connections_per_address: 5000}}
tiers:
  fast: {{targets: [{{name: quick, adapter: openai_http, dialect: chat, base_url: "{url}", model: m, window_tokens: 9000000}}]}}
  deep: {{targets: [{{name: thorough, adapter: openai_http, dialect: chat, base_url: "{url}", model: m, window_tokens: 9000000}}]}}
"""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The upstream: thinks for a while, as a model does."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            ends = body[:500] + body[-500:]  # it has other things to do than to read it
            await asyncio.sleep(SLOW_SECONDS if SLOW.encode() in ends else THINK_SECONDS)
            if b'"stream":true' not in ends:
                writer.write(WHOLE)
                continue
            tokens = LONG_TOKENS if LONG.encode() in ends else 1
            frames = b"".join(FRAME % number for number in range(tokens))
            writer.write(HEAD + chunk(frames) + chunk(LAST) + b"0\r\n\r\n")
    writer.close()


async def serve_upstream() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Attack:
    """What the hostile key does, in a process of its own."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._headers = port, {"authorization": f"Bearer {key}"}
        self._statuses: dict[int, int] = {}
        self._finished_job = ""

    async def _repeat(self, count: int, ask: Callable[[], Awaitable[int]]) -> None:
        """So many at a time, one after another."""

        async def go_on() -> None:
            while True:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    status = await ask()
                    self._statuses[status] = self._statuses.get(status, 0) + 1

        await asyncio.gather(*(go_on() for _ in range(count)))

    async def _post(self, path: str, body: object) -> int:
        return (await call(self._port, path, body, self._headers)).status

    async def requests(self) -> None:
        """Fill the slots, and ask for more."""
        slow = self._repeat(300, lambda: self._post(CHAT, chat(SLOW)))
        await asyncio.gather(slow, self._repeat(16, lambda: self._post(CHAT, chat("quick"))))

    async def sockets(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(40):
                socket = await stack.enter_async_context(open_socket(self._port, **self._headers))
                for lane in range(30):
                    await socket.say(SLOW, stream_id=str(lane))
            await asyncio.sleep(SLOW_SECONDS)

    async def jobs(self) -> None:
        await self._repeat(4, lambda: self._post(RESPONSES, {"model": "auto", "input": SLOW, "background": True}))

    async def bodies(self) -> None:
        large = json.dumps({"model": "auto", "input": "x " * (8 << 20)}).encode()
        await self._repeat(4, lambda: self._post(RESPONSES, large))

    async def _read_job(self) -> int:
        return (await call(self._port, f"{RESPONSES}/{self._finished_job}?stream=true", headers=self._headers)).status

    async def rereads(self) -> None:
        await self._repeat(64, self._read_job)

    async def _finish_job(self) -> None:
        job = await call(self._port, RESPONSES, {"model": "auto", "input": LONG, "background": True}, self._headers)
        self._finished_job = job.json["id"]
        await self._read_job()  # until its end

    async def run(self, kinds: list[str]) -> None:
        """Go on until terminated, then print how many answers of each status there were. An empty line says when it begins."""
        if "rereads" in kinds:
            await self._finish_job()
        print(flush=True)
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*(getattr(self, kind)() for kind in kinds))
        print(json.dumps(self._statuses), flush=True)


KINDS = ("requests", "sockets", "jobs", "bodies", "rereads")


async def ask_honestly(port: int, headers: dict[str, str], tandem: Process, offset: float) -> list[tuple[int, float, float]]:
    """Status, milliseconds, and the router's CPU milliseconds meanwhile, of small requests on one connection."""
    found = []
    await asyncio.sleep(offset)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    until = time.monotonic() + SECONDS
    for number in itertools.count():
        if (began := time.monotonic()) > until:
            break
        cpu = tandem.cpu_nanoseconds()
        writer.write(request_bytes(CHAT, chat(f"fix typo {number}"), headers))
        reply = await read_reply(reader)
        found.append((reply.status, (time.monotonic() - began) * 1e3, (tandem.cpu_nanoseconds() - cpu) / 1e6))
        await asyncio.sleep(max(0.0, 1 / PER_SECOND - (time.monotonic() - began)))
    writer.close()
    return found


async def measure(port: int, callers: Callers, tandem: Process) -> tuple[list[float], list[float], int]:
    """Sorted milliseconds, sorted CPU milliseconds, and how many were refused."""
    asks = (ask_honestly(port, callers[f"honest{number}"], tandem, number / 50) for number in range(HONEST))
    found = [one for some in await asyncio.gather(*asks) for one in some]
    return sorted(one[1] for one in found), sorted(one[2] for one in found), sum(one[0] != 200 for one in found)


def part(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def start(role: list[str], *before: str) -> Process:
    return Process([*before, sys.executable, "-m", "tests.bench.hostile", *role], CORES[0], stdout=subprocess.PIPE)


async def attack_once(kinds: tuple[str, ...], upstream_port: int) -> tuple[list[float], list[float], int, str]:
    """What the honest ones saw, and what the hostile one did: answers by status, and how busy the router was."""
    with tempfile.TemporaryDirectory() as folder:
        callers = Callers(Path(folder), eve={}, **{f"honest{number}": {} for number in range(HONEST)})
        tandem, port, _ = start_tandem(upstream_port, Path(folder), config=CONFIG, headers=callers["eve"])
        key, told = callers["eve"]["authorization"].split()[1], ""
        # With its own core it would be elsewhere: it must not be in the way of the upstream and of the honest ones.
        attack = start(["attack", str(port), key, *kinds], "nice", "-n", "15") if kinds else None
        try:
            if attack is not None:
                await asyncio.to_thread(attack.child.stdout.readline)
            await asyncio.sleep(3 if kinds else 0.5)
            before, began = tandem.cpu_nanoseconds(), time.monotonic_ns()
            times, cpu, refused = await measure(port, callers, tandem)
            busy = (tandem.cpu_nanoseconds() - before) / (time.monotonic_ns() - began)
        finally:
            if attack is not None:
                attack.child.terminate()
                told = attack.child.stdout.read().strip()
                attack.stop()
            tandem.stop()
    return times, cpu, refused, f"router {busy:.0%} busy {told}"


async def compare(chosen: tuple[str, ...]) -> bool:
    """Print the figures of each attack, or of the chosen ones. Returns whether all are within the bar."""
    is_within, alone = True, 0.0
    upstream = start(["upstream"])
    upstream_port = int(upstream.child.stdout.readline())
    each = [(kind,) for kind in chosen or KINDS]
    for kinds in ((), *each, *([] if chosen else [KINDS])):
        times, cpu, refused, told = await attack_once(kinds, upstream_port)
        p99 = part(times, 0.99)
        alone = alone or p99
        holds = p99 <= MOST_TIMES * alone and not refused
        is_within = is_within and holds
        say(
            f"{' + '.join(kinds) or 'alone':50} {len(times):4} asked, {refused:3} refused, p50 {part(times, 0.5):6.1f} ms, "
            f"p99 {p99:6.1f} ms ({p99 / alone:4.2f}x), CPU meanwhile p50 {part(cpu, 0.5):6.1f} p99 {part(cpu, 0.99):6.1f} ms, "
            f"{told}{'' if holds else '  over the bar'}"
        )
    upstream.stop()
    return is_within


def main(role: str = "", *given: str) -> None:
    if role == "upstream":
        asyncio.run(serve_upstream())
    elif role == "attack":
        port, key, *kinds = given
        asyncio.run(Attack(int(port), key).run(kinds))
    else:
        sys.exit(not asyncio.run(compare(tuple(filter(None, (role, *given))))))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
