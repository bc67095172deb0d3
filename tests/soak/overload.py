"""`python -m tests.soak.overload`: ten times as many callers as may be served at once, for a minute.

64 requests may be in flight, and the upstream takes a second for each, so 64 a second is all there can be. 640 callers ask
again as soon as they are answered or refused, the refused ones after the second that `Retry-After` names. Printed are the answers
in proportion to what is possible, how long a refusal takes, and how soon after the overload a caller is served.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.process import serving
from tests.tools.http import Reply, chat, read_reply, request_bytes
from tests.tools.running import read_entries
from tests.tools.upstream import CHAT_ANSWER, Upstream, answer_json
from tests.tools.waiting import later

MAX_IN_FLIGHT, TIMES, UPSTREAM_SECONDS = 64, 10, 1.0
GOODPUT, REFUSAL_SECONDS, RECOVERY_SECONDS = 0.8, 0.05, 2.0
CONFIG = """
ledger: {{path: test.db}}
tiers:
  fast: {{targets: [{{name: quick, adapter: openai_http, dialect: chat, base_url: "{url}", model: m}}]}}
  deep: {{targets: [{{name: thorough, adapter: openai_http, dialect: chat, base_url: "{url}", model: m, window_tokens: 400000}}]}}
limits: {{max_in_flight: {max_in_flight}, max_connections_per_address: {connections}}}
"""


@dataclass
class Seen:
    """What the callers met."""

    served: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    """Seconds from sending to the whole answer."""
    other: list[str] = field(default_factory=list)

    def take(self, reply: Reply, seconds: float) -> None:
        if reply.status == 200:
            self.served.append(seconds)
        elif reply.status == 503 and reply.headers.get("retry-after"):
            self.refused.append(seconds)
        else:
            self.other.append(f"{reply.status} {reply.body[:80]!r}")


class Herd:
    """Callers that do not let up."""

    def __init__(self, port: int, retry_seconds: float) -> None:
        self._port, self._retry_seconds, self.seen = port, retry_seconds, Seen()
        self._is_over = False
        self._body = request_bytes("/v1/chat/completions", chat("fix the typo"))

    async def ask(self) -> tuple[Reply, float]:
        """One request on a connection of its own: a refusal closes it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            began = time.perf_counter()
            writer.write(self._body)
            return await asyncio.wait_for(read_reply(reader), 60), time.perf_counter() - began
        finally:
            writer.close()

    async def _keep_asking(self, late_by: float) -> None:
        await asyncio.sleep(late_by)
        while not self._is_over:  # a cancellation may be lost in `wait_for`, before Python 3.12
            try:
                reply, seconds = await self.ask()
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.seen.other.append(repr(error))
                await asyncio.sleep(self._retry_seconds)
                continue
            self.seen.take(reply, seconds)
            if reply.status != 200:
                await asyncio.sleep(self._retry_seconds)

    async def run(self, callers: int, seconds: float) -> None:
        """Ask for so long. What is then under way is hung up on."""
        tasks = [later(self._keep_asking(self._retry_seconds * number / callers)) for number in range(callers)]
        await asyncio.sleep(seconds)
        self._is_over = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True)
class Result:
    """The three figures, and what else must hold."""

    goodput: float
    refusal_p99: float
    recovery: float
    served_p99: float
    other: list[str]
    in_ledger: int
    served: int
    refused: int

    @property
    def faults(self) -> list[str]:
        checks = (
            (self.goodput >= GOODPUT, f"goodput {self.goodput:.0%} is below {GOODPUT:.0%}"),
            (self.refusal_p99 <= REFUSAL_SECONDS, f"refusals take {self.refusal_p99 * 1e3:.0f} ms at p99"),
            (self.recovery <= RECOVERY_SECONDS, f"a caller is served only {self.recovery:.1f} s after the overload"),
            (not self.other, f"{len(self.other)} callers got something else: {self.other[:3]}"),
        )
        return [fault for holds, fault in checks if not holds]


async def overload(folder: Path, seconds: float) -> Result:
    """Measure it."""
    upstream = Upstream()
    await upstream.start()
    answer = answer_json(CHAT_ANSWER)

    async def answer_late(wire, seen) -> None:
        upstream.seen.clear()
        await asyncio.sleep(UPSTREAM_SECONDS)
        await answer(wire, seen)

    upstream.scripts = [answer_late]
    callers = TIMES * MAX_IN_FLIGHT
    config = CONFIG.format(url=upstream.base_url, max_in_flight=MAX_IN_FLIGHT, connections=2 * callers)
    async with serving(folder, config) as tandem:
        herd = Herd(tandem.port, retry_seconds=1.0)
        await herd.run(callers, seconds)
        seen, began = herd.seen, time.perf_counter()
        while (await herd.ask())[0].status != 200:  # noqa: ASYNC110  another process, which sets no event here
            await asyncio.sleep(0.02)
        recovery = time.perf_counter() - began - UPSTREAM_SECONDS
        await tandem.stop()
    await upstream.stop()
    rows = read_entries(folder / "test.db")
    return Result(
        goodput=len(seen.served) / (MAX_IN_FLIGHT / UPSTREAM_SECONDS * (seconds - UPSTREAM_SECONDS)),
        refusal_p99=_p99(seen.refused),
        recovery=recovery,
        served_p99=_p99(seen.served),
        other=seen.other,
        in_ledger=len(rows),
        served=len(seen.served),
        refused=len(seen.refused),
    )


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)] if values else 0.0


def run_quickly(work: Coroutine[Any, Any, Result]) -> Result:
    """On uvloop where it is installed: the callers share the machine with the router, and their own delay counts as its."""
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.overload", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        result = run_quickly(overload(Path(folder), arguments.seconds))
    print(
        f"{result.served} served, {result.refused} refused, {result.in_ledger} entries; load {before:.1f} before, of "
        f"{os.cpu_count()} cores"
    )
    print(f"goodput        {result.goodput:6.1%}   of {MAX_IN_FLIGHT / UPSTREAM_SECONDS:.0f} a second")
    print(f"refusals p99   {result.refusal_p99 * 1e3:6.1f} ms")
    print(f"served p99     {result.served_p99:6.2f} s")
    print(f"recovery       {result.recovery:6.2f} s")
    for fault in result.faults:
        print(f"FAULT  {fault}")
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
