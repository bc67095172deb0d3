"""`python -m tests.bench.background`: what background work costs and how soon it reacts. Exits with 1 where a bar is missed.

`log`: CPU time of a frame in a job's log, in all threads. `cuts`: streams that are cut anywhere and resumed. `cancel`: from the
request to cancel until the target's connection is closed. `resume`: until the first byte of a resumed stream. `front`: time to
the first token of fast turns while eight jobs stream on deep, against none. `others`: CPU time of the loop's thread for a piece
of other streams while eight jobs write their logs, against none.
"""

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import openai

from router.contract.job import Job, JobStore
from router.jobs.log_sink import LogSink, SharedLog
from router.telemetry import events
from router.upstream.connection import Connection
from router.wiring.stores import open_jobs
from tests.conftest import SIMULATED
from tests.tools.background import begin, events_in, poll, read_log, read_some
from tests.tools.configs import load_text
from tests.tools.http import request_bytes
from tests.tools.jobs import LEASE_SECONDS, MANY, make_job
from tests.tools.running import Running, one_dialect, running, two_targets
from tests.tools.speech import Speech, speak
from tests.tools.upstream import CHAT_STREAM_HEAD, DONE, Seen, Upstream, Wire, chat_frame
from tests.tools.waiting import later, until

FRAME_US, CANCEL_MS, RESUME_MS, FRONT, OTHERS = 5.0, 200.0, 50.0, 1.1, 1.02
JOBS = 8
DEEP_SECONDS = 1 / 65
"""A token of deep, as the targets' figures have it."""


async def measure_log(count: int) -> bool:
    """Frames as a quick and a slow target send them, eight jobs at once; what an empty loop of the same kind costs is left out."""
    is_good = True
    for name, each_moment in (("1000 a second", 50), ("65 a second", 3)):
        moments = max(10, count // 100)
        async with _running_jobs() as (store, jobs):
            idle = await _feed(jobs, store, moments, 0)
            busy = await _feed(jobs, store, moments, each_moment)
        frames = moments * each_moment * JOBS
        cost = (busy - idle) / frames * 1e6
        is_good &= cost <= FRAME_US or each_moment < 10
        print(f"log: {name} a job, {frames} frames: {cost:.2f} µs of CPU a frame (bar {FRAME_US:g})")
    return is_good


@contextlib.asynccontextmanager
async def _running_jobs() -> AsyncIterator[tuple[JobStore, list[Job]]]:
    """Eight jobs that were claimed, in a store on disk."""
    with tempfile.TemporaryDirectory() as folder:
        opener = open_jobs(load_text(SIMULATED, Path(folder)), "", on_disk=True)
        store = await opener.open()
        for number in range(JOBS):
            await store.add(make_job(f"resp_{number}"), MANY)
        yield store, [await store.claim("me", LEASE_SECONDS, MANY) for _ in range(JOBS)]
        await opener.close()


async def _feed(jobs: list[Job], store, moments: int, each_moment: int) -> float:
    shared = SharedLog()
    sinks = [LogSink(job, store, shared) for job in jobs]
    writing = [later(sink.write_log()) for sink in sinks]
    for sink in sinks:
        sink.start(200, ())
    said = b'{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","output_index":0,"delta":"word "}'
    numbers = range(moments * each_moment)
    frames = [b"event: response.output_text.delta\ndata: %b\n\n" % (said % number) for number in numbers]
    number, began = 0, time.process_time()
    for _ in range(moments):
        for place in range(each_moment):
            for sink in sinks:
                sink.write(frames[number + place])
        number += each_moment
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.1)
    spent = time.process_time() - began
    for sink in sinks:
        sink.abandon()
    await asyncio.gather(*writing)
    return spent


async def measure_cuts(tandem: Running, upstream: Upstream, count: int) -> bool:
    """Whether every stream that was cut is, joined, what the uncut one is. Half of them are read while they run."""
    chance, good = random.Random(count), 0
    for number in range(count):
        text = " ".join(f"word-{chance.randint(0, 10**6)}" for _ in range(chance.randint(50, 400)))
        upstream.scripts = [speak("chat", Speech(text))] if number % 2 else [_speak_slowly(text)]
        job_id = await begin(tandem)
        if number % 2:
            await poll(tandem, job_id)
        joined = b""
        for _ in range(chance.randint(1, 20)):
            last = events_in(joined)[-1]["sequence_number"] if joined else -1
            piece = await read_some(tandem, job_id, last, chance.randint(1, 20_000))
            joined += piece[: piece.rfind(b"\n\n") + 2] if b"\n\n" in piece else b""
            if b"response.completed" in joined:
                break
        last = events_in(joined)[-1]["sequence_number"] if joined else None
        joined += (await read_log(tandem, job_id, last)).body
        good += _without_comments(joined) == (await read_log(tandem, job_id)).body
    print(f"cuts: {good} of {count} streams, each cut 1 to 20 times, are what the uncut one is")
    return good == count


def _without_comments(body: bytes) -> bytes:
    return b"".join(frame + b"\n\n" for frame in body.split(b"\n\n") if frame and not frame.startswith(b":"))


def _speak_slowly(text: str, pause_seconds: float = 0.001):
    async def script(wire: Wire, seen: Seen) -> None:
        await wire.send(CHAT_STREAM_HEAD)
        for word in text.split():
            await wire.chunk(chat_frame(f"{word} "))
            await asyncio.sleep(pause_seconds)
        await wire.chunk(chat_frame(None, "stop") + DONE)
        await wire.end_chunks()

    return script


async def measure_cancel(tandem: Running, upstream: Upstream, count: int) -> bool:
    upstream.scripts, taken = [_speak_slowly("word " * 100_000)], []
    loop = asyncio.get_running_loop()
    async with openai.AsyncOpenAI(base_url=f"{tandem.url}/v1", api_key="x") as client:
        for _ in range(count):
            seen = len(upstream.seen)
            job_id = await begin(tandem)
            await read_some(tandem, job_id, 2, 100)
            began = loop.time()
            await client.responses.cancel(job_id)
            await upstream.seen[seen].left.wait()
            taken.append((upstream.seen[seen].left_at - began) * 1e3)
    return _report("cancel: connection to the target closed after", taken, CANCEL_MS)


async def measure_resume(tandem: Running, upstream: Upstream, count: int) -> bool:
    upstream.scripts, taken = [_speak_slowly("word " * 2_000)], []
    job_id = await begin(tandem)
    await read_some(tandem, job_id, 500, 100)
    for number in range(count):
        began = time.perf_counter()
        await read_some(tandem, job_id, number % 500, 1)
        taken.append((time.perf_counter() - began) * 1e3)
    return _report("resume: first byte after", taken, RESUME_MS)


def _report(words: str, taken: list[float], bar: float) -> bool:
    taken.sort()
    worst = taken[min(len(taken) - 1, int(len(taken) * 0.99))]
    print(f"{words} p50 {statistics.median(taken):.1f} ms, p99 {worst:.1f} ms of {len(taken)} (bar {bar:g})")
    return worst <= bar


class _PieceClock:
    """CPU time of each piece on its way from a target's connection to its caller's."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self._receive = Connection.data_received

    def __enter__(self) -> "_PieceClock":
        def receive(connection: Connection, data: bytes) -> None:
            began = time.thread_time_ns()
            self._receive(connection, data)
            self.taken.append((time.thread_time_ns() - began) / 1e3)

        Connection.data_received = receive
        return self

    def __exit__(self, *_: object) -> None:
        Connection.data_received = self._receive


async def _read_on(tandem: Running) -> None:
    """Read a stream for as long as it lasts."""
    body = {"model": "fast", "messages": [{"role": "user", "content": "fix the typo: retrun x"}], "stream": True}
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    try:
        writer.write(request_bytes("/v1/chat/completions", body))
        while await reader.read(65_536):
            pass
    finally:
        writer.close()


async def measure_others(tandem: Running, upstream: Upstream, count: int) -> bool:
    """Moments with and without logs being written, in turn, so that what else the machine does falls on both."""
    upstream.scripts = [_speak_slowly("word " * 1_000_000, 0.002)]
    streams = [later(_read_on(tandem)) for _ in range(4)]
    await until(lambda: upstream.open_connections >= len(streams))
    ratios: list[float] = []
    async with _running_jobs() as (store, jobs):
        with _PieceClock() as clock:
            for number in range(count):
                means = {}
                for frames in (0, 3) if number % 2 else (3, 0):  # 65 frames a second
                    clock.taken.clear()
                    await _feed(jobs, store, 10, frames)
                    means[frames] = statistics.fmean(clock.taken)
                ratios.append(means[3] / means[0])
    for stream in streams:
        stream.cancel()
    ratio = statistics.median(ratios)
    low, _, high = statistics.quantiles(ratios, n=4)
    print(
        f"others: a piece takes {ratio:.3f} × as much with {JOBS} jobs' logs, median of {count} pairs, half of them between {low:.3f}"
        f" and {high:.3f} (bar {OTHERS:g})"
    )
    return ratio <= OTHERS


async def measure_front(tandem: Running, upstream: Upstream, deep: Upstream, count: int) -> bool:
    """Turns alone and with jobs, in turn, so that what else the machine does falls on both."""
    upstream.scripts, deep.scripts = [speak("chat", Speech("done"))], [_speak_slowly("word " * 100_000, DEEP_SECONDS)]
    alone: list[float] = []
    behind: list[float] = []
    async with openai.AsyncOpenAI(base_url=f"{tandem.url}/v1", api_key="x") as client:
        await _time_turns(client, count // 4)
        for _ in range(4):
            alone += await _time_turns(client, count // 4)
            jobs = [await begin(tandem, {"x-tandem-tier": "deep"}) for _ in range(JOBS)]
            await until(lambda: deep.open_connections >= JOBS)
            behind += await _time_turns(client, count // 4)
            for job_id in jobs:
                await client.responses.delete(job_id)
    ratio = _p95(behind) / _p95(alone)
    print(
        f"front: first token p95 {_p95(alone):.1f} ms alone, {_p95(behind):.1f} ms with {JOBS} jobs: {ratio:.2f} × (bar {FRONT:g})"
    )
    return ratio <= FRONT


async def _time_turns(client: openai.AsyncOpenAI, count: int) -> list[float]:
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        stream = await client.chat.completions.create(
            model="fast", messages=[{"role": "user", "content": "fix the typo: retrun x"}], stream=True
        )
        async for _ in stream:
            taken.append((time.perf_counter() - began) * 1e3)
            break
        await stream.close()
    return taken


def _p95(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.95)]


async def measure(names: list[str], count: int) -> bool:
    upstream, deep = Upstream(), Upstream()
    await upstream.start()
    await deep.start()
    events.set_up_logging(as_json=True)
    results = []
    jobs = f"jobs: {{most_running: {JOBS}, most_for_a_caller: {JOBS}}}"
    work: dict[str, Callable[[Running], Awaitable[bool]]] = {
        "cuts": lambda tandem: measure_cuts(tandem, upstream, count),
        "cancel": lambda tandem: measure_cancel(tandem, upstream, count),
        "resume": lambda tandem: measure_resume(tandem, upstream, count),
        "front": lambda tandem: measure_front(tandem, upstream, deep, count),
        "others": lambda tandem: measure_others(tandem, upstream, count),
    }
    for name in names:
        if name == "log":
            results.append(await measure_log(count))
            continue
        base = (upstream.base_url, deep.base_url)
        config = two_targets(*base, extra=jobs) if name == "front" else one_dialect("chat", base[0], extra=jobs)
        with tempfile.TemporaryDirectory() as folder:
            async with running(config, Path(folder)) as tandem:
                results.append(await work[name](tandem))
    await upstream.stop()
    await deep.stop()
    return all(results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["log", "cuts", "cancel", "resume", "front", "others"])
    parser.add_argument("-n", "--count", type=int, default=100)
    given = parser.parse_args()
    sys.exit(0 if asyncio.run(measure(given.names, given.count)) else 1)
