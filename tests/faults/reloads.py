"""Reloads under load: a config every 100 ms, one in three with faults, under callers, streams and sockets.

`python -m tests.faults.reloads --seconds 30` prints what it saw; `--every 1000` is the same load without reloads, to compare its
memory with. The suite runs it for some seconds.
"""

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import os
import tempfile
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from router.config.faults import ConfigError
from router.telemetry import events
from tests.tools.http import call, chat
from tests.tools.running import Running, running
from tests.tools.sockets import open_socket
from tests.tools.upstream import CHAT_ANSWER, CHAT_STREAM_HEAD, DONE, GOOD_CHAT_STREAM, Script, Upstream, answer_json
from tests.tools.waiting import by_the_clock, later

CALLERS, STREAMS, SOCKETS = 16, 20, 20
EVERY_SECONDS = 0.1


@dataclass
class Seen:
    served: int = 0
    reloads: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    made: list[weakref.ref] = field(default_factory=list)
    """The dispatcher of each used plan, held only by the plan and its requests."""
    plans: int = 0
    """Old plans still alive at the end."""
    gone_addresses: int = 0
    """Addresses of old plans with connections at the end."""
    rss_mb: list[float] = field(default_factory=list)


def config(fast: str, name: str, deep: str) -> str:
    return f"""
ledger: {{path: test.db}}
tiers:
  fast: {{targets: [{{name: {name}, dialect: chat, base_url: "{fast}", model: m}}]}}
  deep: {{targets: [{{name: sage, dialect: chat, base_url: "{deep}", model: m}}]}}
"""


async def answer_slowly(wire, seen) -> None:
    """A whole answer, or a stream that lasts several reloads."""
    if not seen.json.get("stream"):
        await answer_json(CHAT_ANSWER)(wire, seen)
        return
    await wire.send(CHAT_STREAM_HEAD)
    for piece in GOOD_CHAT_STREAM:
        await wire.chunk(piece)
        await by_the_clock(EVERY_SECONDS)
    await wire.end_chunks()


def _forgetting(upstream: Upstream) -> Script:
    """Drop the upstream's notes, which would pass for the router's growth."""

    async def answer(wire, seen) -> None:
        upstream.seen.clear()
        await answer_slowly(wire, seen)

    return answer


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.asynccontextmanager
async def upstreams(count: int) -> AsyncIterator[list[Upstream]]:
    async with contextlib.AsyncExitStack() as stack:
        found = [Upstream() for _ in range(count)]
        for upstream in found:
            await upstream.start()
            stack.push_async_callback(upstream.stop)
            upstream.scripts = [_forgetting(upstream)]
        yield found


async def run(seconds: float, folder: Path, every_seconds: float = EVERY_SECONDS) -> Seen:
    """Reload for some seconds, and until all have been served, under load, which must not notice."""
    seen, over = Seen(), asyncio.Event()
    async with upstreams(3) as (first, second, deep):
        texts = [config(first.base_url, "spark", deep.base_url), config(second.base_url, "swift", deep.base_url), "tiers:\n"]
        file = folder / "config.yaml"
        file.write_text(texts[0])
        async with running(texts[0], folder) as tandem:
            workers = [later(_call(tandem, seen, over, is_streaming=number >= CALLERS)) for number in range(CALLERS + STREAMS)]
            workers += [later(_talk(tandem, seen, over)) for _ in range(SOCKETS)]
            await _reload(tandem, seen, file, texts, seconds, every_seconds)
            over.set()
            await asyncio.gather(*workers)
            file.write_text(texts[1])
            await tandem.built.reloader.reload()
            gc.collect()
            seen.plans = sum(plan() is not None for plan in seen.made)
            gone = first.base_url.removesuffix("/v1")
            seen.gone_addresses = sum(key.startswith(f"{gone} ") for key in tandem.house.state.upstream._origins)
            seen.rss_mb.append(round(resident_mb(), 1))
    return seen


async def _reload(tandem: Running, seen: Seen, file: Path, texts: list[str], seconds: float, every_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    ends_at, measured_at = loop.time() + seconds, loop.time() + seconds / 3
    for text in itertools.cycle((texts[1], texts[2], texts[0])):
        if loop.time() >= ends_at and seen.served > CALLERS + STREAMS + SOCKETS and seen.reloads >= 3:
            return
        part = file.with_suffix(".part")
        part.write_text(text)
        part.replace(file)
        seen.reloads += 1
        seen.made.append(weakref.ref(tandem.house.plan.dispatcher))
        try:
            await tandem.built.reloader.reload()
        except ConfigError:
            seen.refused += 1
        next_at = loop.time() + every_seconds
        while loop.time() < min(next_at, ends_at):
            await by_the_clock(EVERY_SECONDS)
            if loop.time() >= measured_at:
                seen.rss_mb.append(round(resident_mb(), 1))
                measured_at += seconds / 6


async def _call(tandem: Running, seen: Seen, over: asyncio.Event, *, is_streaming: bool) -> None:
    while not over.is_set():
        reply = await call(tandem.port, "/v1/chat/completions", chat(stream=is_streaming))
        if reply.status != 200 or not reply.is_whole or (is_streaming and DONE not in reply.body):
            seen.failures.append(f"{reply.status} {reply.body[:200]!r}")
        seen.served += 1


async def _talk(tandem: Running, seen: Seen, over: asyncio.Event) -> None:
    async with open_socket(tandem.port) as socket:
        while not over.is_set():
            await socket.say()
            last = await socket.answer()
            if last["type"] != "response.completed":
                seen.failures.append(json.dumps(last)[:200])
            seen.served += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=EVERY_SECONDS)
    given = parser.parse_args()
    events.set_up_logging()
    with tempfile.TemporaryDirectory() as folder:
        seen = asyncio.run(run(given.seconds, Path(folder), given.every))
    print(f"{seen.reloads} reloads, {seen.refused} of them refused; {seen.served} requests, {len(seen.failures)} failed")
    print(f"{seen.plans} old plans at the end, {seen.gone_addresses} addresses of old plans; MB over time: {seen.rss_mb}")
    for failure in seen.failures[:10]:
        print(f"  {failure}")
    return 1 if seen.failures or seen.plans else 0


if __name__ == "__main__":
    raise SystemExit(main())
