"""Conversations whose every step goes to another router, which must know all that was said before.

`python -m tests.faults.chains --chains 300 --steps 6` runs three routers that share a Valkey server and a Postgres database, and
prints what went wrong. Steps are streamed and whole; half of the chains have `store: true`. A
client goes on at the terminal event or at the end of the answer, with no pause. `--alone` shows that routers which share nothing fail,
`--keys 200` sends each of 200 `Idempotency-Key`s to all routers at once and counts the calls of targets.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from tests.faults.wandering import at_once
from tests.tools.fleet import routers_of
from tests.tools.http import Reply, call, request_bytes
from tests.tools.postgres import PostgresServer, find_binaries
from tests.tools.speech import Speech, write_stream, write_whole
from tests.tools.upstream import CHAT_STREAM_HEAD, Seen, Upstream, Wire, answer_json
from tests.tools.valkey import ValkeyServer, find_server
from tests.tools.waiting import later

CONFIG = """
ledger: {{path: test.db}}
tiers:
  fast:
    targets:
      - {{name: spark, adapter: openai_http, dialect: chat, base_url: "{0}", model: f, accepts: [text, tools, reasoning],
         typical: {{ttft_seconds: 0.2, tokens_per_second: 1000, prefill_tokens_per_second: 60000}}}}
  deep:
    targets:
      - {{name: sage, adapter: openai_http, dialect: responses, base_url: "{1}", model: d, accepts: [text, tools, reasoning],
         typical: {{ttft_seconds: 0.9, tokens_per_second: 65, prefill_tokens_per_second: 60000}}}}
"""
VALKEY = "valkey: {url: env:TANDEM_VALKEY_URL, timeout_ms: 5000}"
POSTGRES = "postgres: {url: env:TANDEM_POSTGRES_URL, timeout_ms: 5000}"
"""Patience for a slow test machine: absent stores are tried elsewhere."""
AT_ONCE = 12


def share(*stores: str) -> str:
    return f"shared: {{{', '.join(stores)}}}\n"


class Host:
    """A stateless target that notes what it is sent of each conversation, with its own response ids."""

    def __init__(self, dialect: str, name: str = "") -> None:
        """Hosts of one dialect need different names, for unique response ids."""
        self._dialect, self._name, self._numbers = dialect, name or dialect, itertools.count(1)
        self.calls = 0

    async def __call__(self, wire: Wire, seen: Seen) -> None:
        self.calls += 1
        body = seen.body.decode()
        answered = set(re.findall(r"answer to (chain\d+step\d+)", body))
        asked = set(re.findall(r"chain\d+step\d+", body)) - answered
        name = max(asked, default="nothing")
        speech = Speech(f"answer to {name}, which is step {len(answered)} of {len(answered | asked)}")
        own = f"resp_{self._name}{next(self._numbers)}".encode()
        if not seen.json.get("stream"):
            whole = json.dumps(write_whole(self._dialect, speech)).encode()
            await answer_json(self._own(whole, own))(wire, seen)
            return
        await wire.send(CHAT_STREAM_HEAD)
        for frame in write_stream(self._dialect, speech):
            await wire.chunk(self._own(frame, own))
        await wire.end_chunks()

    @staticmethod
    def _own(written: bytes, name: bytes) -> bytes:
        return written.replace(b"resp_x", name).replace(b'"store": true', b'"store": false')


def said_in(body: bytes) -> str:
    parts = re.findall(rb'"(?:delta|text)": ?"((?:[^"\\]|\\.)*)"', body)
    return b"".join(parts).decode()


@contextlib.asynccontextmanager
async def hosts_of(hosts: Sequence[Host]) -> AsyncIterator[list[str]]:
    upstreams = [Upstream() for _ in hosts]
    for upstream, host in zip(upstreams, hosts, strict=True):
        upstream.scripts = [host]
        await upstream.start()
    try:
        yield [upstream.base_url for upstream in upstreams]
    finally:
        for upstream in upstreams:
            await upstream.stop()


class Chains:
    def __init__(
        self,
        ports: Sequence[int],
        seed: int = 1,
        *,
        only_stored: bool = False,
        pace: Callable[[], Awaitable[None]] = at_once,
    ) -> None:
        self.pace = pace
        self.ports, self._chance, self._only_stored = ports, random.Random(seed), only_stored
        self.faults: list[str] = []
        self.steps = 0

    async def run(self, chains: int, steps: int, first: int = 0) -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with slots:
                await self._walk(number, steps)

        await asyncio.gather(*map(one, range(first, first + chains)))

    async def _walk(self, number: int, steps: int) -> None:
        stored = {"store": True} if number % 2 or self._only_stored else {}
        previous = None
        for step in range(steps):
            name, streams = f"chain{number}step{step}", self._chance.random() < 0.5
            tier = {"x-tandem-tier": self._chance.choice(["fast", "deep"])}
            link = {"previous_response_id": previous} if previous else {}
            asked = {"model": "auto", "input": name, "stream": streams, **stored, **link}
            reply = await self._send(asked, tier)
            self.steps += 1
            if reply.status != 200:
                self.faults.append(f"{name}: {reply.status} {reply.body[:300].decode()}")
                return
            if f"answer to {name}, which is step {step} of {step + 1}" not in said_in(reply.body):
                self.faults.append(f"{name}: without its history: {said_in(reply.body)[-300:]}")
                return
            previous = re.search(rb'"id": ?"(resp_?[^"]+)"', reply.body)[1].decode()

    async def _send(self, body: dict, headers: dict) -> Reply:
        """Ask any router. Some streams are left at their terminal event, as clients may do."""
        await self.pace()
        port = self._chance.choice(self.ports)
        if not body["stream"] or self._chance.random() < 0.5:
            return await call(port, "/v1/responses", body, headers)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
        writer.write(request_bytes("/v1/responses", body, {**headers, "connection": "close"}))
        head = await reader.readuntil(b"\r\n\r\n")
        status, said = int(head.split(b" ")[1]), b""
        while status == 200 and not re.search(rb"response\.completed\".*\n\r?\n", said, re.DOTALL):
            piece = await reader.read(1 << 16)
            if not piece:
                break
            said += piece
        if status != 200:
            said = await reader.read()
        later(_leave(reader, writer))
        return Reply(status, {}, said)


async def _leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await asyncio.wait_for(reader.read(1), 30)
    writer.close()


async def repeat_everywhere(ports: Sequence[int], keys: int) -> list[str]:
    """Send each key to all routers at once. Returns faults; targets count their calls."""
    faults: list[str] = []
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        body = {"model": "auto", "input": f"chain{number}step0", "stream": bool(number % 2)}
        async with slots:
            headers = {"idempotency-key": f"key-{number}"}
            replies = await asyncio.gather(*(call(port, "/v1/responses", body, headers) for port in ports))
        if [reply.status for reply in replies] != [200] * len(ports) or len({reply.body for reply in replies}) != 1:
            faults.append(f"key {number}: {[(reply.status, reply.body[:200]) for reply in replies]}")

    await asyncio.gather(*map(one, range(keys)))
    return faults


async def _trial(arguments: argparse.Namespace) -> int:
    valkey = ValkeyServer(find_server() or "")
    postgres = PostgresServer(find_binaries() or Path())
    hosts = [Host("chat"), Host("responses")]
    try:
        valkey.start()
        postgres.start()
        variables = {"TANDEM_VALKEY_URL": valkey.url(), "TANDEM_POSTGRES_URL": await postgres.create()}
        stores = {"both": (VALKEY, POSTGRES), "valkey": (VALKEY,), "postgres": (POSTGRES,)}[arguments.stores]
        with tempfile.TemporaryDirectory() as folder:
            async with hosts_of(hosts) as addresses:
                config = CONFIG.format(*addresses) + ("" if arguments.alone else share(*stores))
                async with routers_of(arguments.routers, Path(folder), config, variables) as routers:
                    return await _measure([router.port for router in routers], hosts, arguments)
    finally:
        valkey.stop()
        postgres.stop()


async def _measure(ports: list[int], hosts: list[Host], arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    if arguments.keys:
        faults = await repeat_everywhere(ports, arguments.keys)
        calls = sum(host.calls for host in hosts)
        print(f"{arguments.keys} keys at {len(ports)} routers: {calls} calls of targets, {len(faults)} wrong", end="")
    else:
        chains = Chains(ports, arguments.seed, only_stored=arguments.stores == "postgres")
        await chains.run(arguments.chains, arguments.steps)
        faults = chains.faults
        print(f"{arguments.chains} chains, {chains.steps} steps at {len(ports)} routers: {len(faults)} wrong", end="")
    print(f", {time.monotonic() - began:.1f} s")
    for fault in faults[:10]:
        print(f"  {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=300)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--keys", type=int, default=0, help="repeat requests with so many keys instead")
    parser.add_argument("--routers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stores", choices=["both", "valkey", "postgres"], default="both", help="what the routers share")
    parser.add_argument("--alone", action="store_true", help="share nothing")
    raise SystemExit(asyncio.run(_trial(parser.parse_args())))
