"""How far it scales: what a core and the shared stores take for a request, simulated fleets, and what that means for developers.

`python -m tests.bench.scale` measures everything and fills in the tables of docs/how-it-works/scale.md, in about half an hour on a
quiet machine. Name parts to measure only those: `core`, `stores`, `limits`, `pulses`, `jobs`; the table of developers follows from
the newest figures of each, which are kept in .cache/scale.json. Figures are CPU and counts, so that a busy machine matters little.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import structlog

from tests.bench.bursts import Measure, Order, Router, repeated_requests, requests_sent_once, streamed_tokens
from tests.bench.load import read_whole
from tests.bench.once import ONCE
from tests.bench.processes import CONFIG, start_tandem, start_upstream
from tests.bench.scale_tables import LOADS, PAGE, ROUTERS, SHOWN, STORES, Figures, fill, read_day
from tests.bench.shared import named_session
from tests.bench.simulated import report_targets, share_limits
from tests.bench.simulated_jobs import take_over
from tests.tools.keyed import KEYS, write_keys
from tests.tools.postgres import PostgresServer, find_binaries
from tests.tools.valkey import ValkeyServer, find_server

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".cache/scale.json"
SHARED = "shared: {{valkey: {{url: env:TANDEM_VALKEY_URL}}, postgres: {{url: env:TANDEM_POSTGRES_URL}}}}\n"
CORE: dict[str, Measure] = {
    "small": repeated_requests(600),
    "fresh": requests_sent_once("fresh"),
    "agent": requests_sent_once("agent"),
    "piece": streamed_tokens("chat"),
}


class Counted:
    """A relay on a Unix socket that counts the trips and bytes of what passes. A trip is sent after an answer, or first."""

    def __init__(self, path: Path, to: Path) -> None:
        self.path, self._to, self.count = path, to, Counter[str]()

    @asynccontextmanager
    async def relaying(self) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._relay, self.path)
        try:
            yield
        finally:
            server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(str(self._to))
        waits = [False]
        asking, telling = (
            self._pass(reader, far_writer, waits, is_asking=True),
            self._pass(far_reader, writer, waits, is_asking=False),
        )
        with suppress(OSError, asyncio.CancelledError):  # the router was killed, or all is counted
            await asyncio.gather(asking, telling)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, waits: list[bool], *, is_asking: bool
    ) -> None:
        while piece := await reader.read(1 << 16):
            self.count["bytes"] += len(piece)
            if is_asking and not waits[0]:
                self.count["trips"] += 1
            waits[0] = is_asking
            writer.write(piece)
        writer.close()


class Stores:
    """Real servers, and relays before them."""

    def __init__(self, stack: ExitStack) -> None:
        program, binaries = find_server(), find_binaries()
        assert program, "install a server: python tests/tools/install_stores.py"
        assert binaries, "install PostgreSQL: python tests/tools/install_stores.py"
        self.valkey, self.postgres = ValkeyServer(program), PostgresServer(binaries)
        for server in (self.valkey, self.postgres):
            stack.callback(server.stop)
            server.start()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        name = ".s.PGSQL.5432"
        self.relays = {
            "valkey": Counted(folder / "valkey", self.valkey.socket),
            "postgres": Counted(folder / name, self.postgres.folder / name),
        }
        self.direct = {"TANDEM_VALKEY_URL": self.valkey.url(), "TANDEM_POSTGRES_URL": self.postgres.url()}
        self.relayed = {
            "TANDEM_VALKEY_URL": f"unix://{folder}/valkey",
            "TANDEM_POSTGRES_URL": f"postgresql://tandem@/postgres?host={folder}",
        }

    def cpu_seconds(self) -> dict[str, float]:
        """Of each server. PostgreSQL has a process for each connection."""
        valkey, postgres = self.valkey._pid, self.postgres._process
        assert postgres is not None
        children = [path.name for path in Path("/proc").glob("[0-9]*") if _parent_of(path) == postgres.pid]
        found = {"valkey": _cpu_of(valkey), "postgres": sum(map(_cpu_of, (postgres.pid, *map(int, children))))}
        return {name: nanoseconds / 1e9 for name, nanoseconds in found.items()}


def _parent_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _cpu_of(pid: int) -> int:
    return time.clock_gettime_ns((~pid << 3) | 2)  # as `Process.cpu_nanoseconds`


def measure_core(rounds: int = 7, seconds: float = 0.5) -> Figures:
    """CPU in µs by what is served, of a router alone and of one that shares both stores."""
    with ExitStack() as stack:
        stores = Stores(stack)
        upstream, upstream_port = start_upstream()
        stack.callback(upstream.child.kill)
        routers = {}
        for kind, more in (("alone", ""), ("shared", SHARED)):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            process, port, _ = start_tandem(upstream_port, folder, config=CONFIG + more, env={**os.environ, **stores.direct})
            stack.callback(process.child.kill)
            routers[kind] = Router(process, port, upstream_port)
        return asyncio.run(_take_turns(routers, rounds, seconds))


async def _take_turns(routers: dict[str, Router], rounds: int, seconds: float) -> Figures:
    found: Figures = {}
    for name, measure in CORE.items():
        taken = defaultdict[str, list[float]](list)
        for number in range(rounds):
            first, second = ("alone", "shared") if number % 2 else ("shared", "alone")
            order: Order = (first, second, second, first)
            for kind, figure in await measure(routers, order, seconds):
                taken[kind].append(figure)
        found[name] = {kind: statistics.median(figures) for kind, figures in taken.items()}
    return found


async def _count(stores: Stores, router: Router, work: Callable[[], Any], requests: int) -> Figures:
    """Trips, bytes and the servers' CPU for each request, without what a router sends while it is idle."""

    async def count(work: Any) -> dict[str, dict[str, float]]:
        for relay in stores.relays.values():
            relay.count.clear()
        cpu, began = stores.cpu_seconds(), time.monotonic()
        await work
        await asyncio.sleep(1.0)  # rows of the ledger follow within a second
        after, seconds = stores.cpu_seconds(), time.monotonic() - began
        names = ("trips", "bytes")
        return {
            store: {
                **{name: relay.count[name] for name in names},
                "cpu_us": (after[store] - cpu[store]) * 1e6,
                "seconds": seconds,
            }
            for store, relay in stores.relays.items()
        }

    await asyncio.sleep(2.0)
    idle, busy = await count(asyncio.sleep(5.0)), await count(work())
    found: Figures = {}
    for store, counted in busy.items():
        rates = {name: idle[store][name] / idle[store]["seconds"] for name in ("trips", "bytes", "cpu_us")}
        of_requests = {name: (counted[name] - rate * counted["seconds"]) / requests for name, rate in rates.items()}
        found[store] = {name: max(0.0, figure) for name, figure in of_requests.items()} | {"idle": rates}
    return found


async def _ask_each(router: Router, requests: Iterable[bytes], count: int) -> None:
    """One request after another, on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", router.port, limit=1 << 20)
    for request, _ in zip(requests, range(count), strict=False):
        writer.write(request)
        await read_whole(reader)
    writer.close()


def measure_stores(requests: int = 400) -> Figures:
    with ExitStack() as stack:
        return asyncio.run(_measure_stores(stack, Stores(stack), requests))


async def _measure_stores(stack: ExitStack, stores: Stores, requests: int) -> Figures:
    found: Figures = {}
    async with stores.relays["valkey"].relaying(), stores.relays["postgres"].relaying():
        upstream, upstream_port = start_upstream()
        stack.callback(upstream.child.kill)
        for kind in STORES:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            head = b""
            if kind == "keyed":
                keys = write_keys(folder, ann="requests_per_minute: 100000")
                head = b"authorization: Bearer %s\r\n" % keys["ann"].text.encode()
            config = CONFIG + SHARED + (KEYS.replace("{", "{{").replace("}", "}}") if head else "")
            headers = {"authorization": head[15:-2].decode()} if head else {}
            process, port, _ = await asyncio.to_thread(
                start_tandem, upstream_port, folder, config=config, env={**os.environ, **stores.relayed}, headers=headers
            )
            router = Router(process, port, upstream_port)
            made = ONCE["agent"](iter(range(10**6))) if kind == "agent" else named_session()
            asked = (request.replace(b"content-length:", head + b"content-length:", 1) for request in made)
            found[kind] = await _count(stores, router, lambda: _ask_each(router, asked, requests), requests)  # noqa: B023  awaited here
            process.child.kill()
    return found


def simulate(server: ValkeyServer, part: str, counts: Sequence[int]) -> Figures:
    """Figures by the number of routers. More than fifty routers have one load and no deaths: the server would take an hour."""
    found: Figures = {}
    for count in counts:
        print(f"{part}, {count} routers", file=sys.stderr, flush=True)
        if part == "limits":
            is_few = count <= 50
            limits = share_limits(server, count, LOADS if is_few else LOADS[:1], deaths=max(1, count // 10) if is_few else 0)
            found[str(count)] = {**limits._asdict(), "served": [served._asdict() for served in limits.served]}
        else:
            figures = report_targets(server, count) if part == "pulses" else take_over(count)
            found[str(count)] = figures._asdict()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*SHOWN, []], default=list(SHOWN))
    parser.add_argument("--routers", nargs="+", type=int, default=ROUTERS, help="how many are simulated")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    found = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    measures = {"core": measure_core, "stores": measure_stores, "day": read_day}
    for part in given.parts:
        if part in measures:
            found[part] = measures[part]()
        else:
            with ExitStack() as stack:
                found[part] = found.get(part, {}) | simulate(Stores(stack).valkey, part, given.routers)
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(found, indent=1))
        print(SHOWN[part](found[part]), flush=True)
    PAGE.write_text(fill(PAGE.read_text(), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
