"""The edge without a house: a scripted road, a recording transport, a loop with a manual clock."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as some
from msgspec import structs

from router.contract.caller import Caller
from router.contract.exchange import Arrival, Company, Deadline, Exchange, Link, Observers, Part
from router.contract.keys import KeyRing
from router.contract.lasting import Lasting
from router.contract.limits import Limits
from router.contract.request import JsonObject
from router.contract.stores import StoredResponse
from router.contract.words import Tier
from router.dispatch.live.statistics import LiveStatistics
from router.edge.admission import Admission
from router.edge.server import Server, bind
from router.limits.budgets import Budgets
from router.limits.callers import NO_LIMITS
from router.limits.rates import CallerRates
from router.loop.speedups import Speedups
from router.loop.stalls import LoopWatch
from router.sense.models import ModelNames
from router.sessions.ended_jobs import EndedJobs
from router.telemetry.metrics import Metrics
from router.telemetry.ring import Ring
from router.wiring.built import Built
from router.wiring.panels import build_edge
from tests.tools.values import make_target
from tests.tools.waiting import later

_PLAIN_LINES = (
    b"host: 127.0.0.1",
    b"Host: localhost",
    b"content-type: application/json",
    b"x-a: 12",
    b"x-b: content-length: 3",
    b"connection: close",
    b"Connection: keep-alive",
    b"x-c: 0",
)
_ODD_LINES = (
    b"connection: upgrade\r\nupgrade: websocket",
    b"expect: 100-continue",
    b"transfer-encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"x-folded: a\r\n content-length: 3",
    b"x-bare: a\ncontent-length: 3",
    b" content-length: 3",
    b"content-length : 3",
)
_PLAIN_LENGTHS = (b"1", b"7", b"23", b"456")
_LENGTHS = (b"0", b"00", b"07", b"7 ", b"7 7", b"7,7", b"-7", b"+7", b"0x7", b"", b"9" * 19, b"1" * 20, b"\xb2")
_ODD_BYTES = (b"", b"0", b"9", b" ", b"\n", b"\r\n", b"x", b":")
_LENGTH_NAMES = (b"content-length: ", b"Content-Length: ", b"CONTENT-LENGTH:", b"content-length:\t  ")
_FIRST_LINES = tuple(
    b"POST /v1/%b HTTP/%b" % (path, version) for path in (b"messages", b"responses?a=b") for version in (b"1.1", b"1.0", b"2.0")
)


@some.composite
def random_heads(draw: some.DrawFn) -> list[bytes]:
    """One connection's heads: mostly alike but for the length, some with more lines or a changed byte."""

    def sometimes() -> bool:
        return draw(some.integers(0, 3)) == 0

    first, name = draw(some.sampled_from(_FIRST_LINES)), draw(some.sampled_from(_LENGTH_NAMES))
    before, after = (draw(some.lists(some.sampled_from(_PLAIN_LINES), max_size=3)) for _ in range(2))
    heads = []
    for _ in range(draw(some.integers(2, 5))):
        lengths = [name + draw(some.sampled_from(_LENGTHS if sometimes() else _PLAIN_LENGTHS)) for _ in range(1 + sometimes())]
        more = [draw(some.sampled_from(_PLAIN_LINES + _ODD_LINES))] if sometimes() else []
        head = b"\r\n".join((first, *before, *lengths, *more, *after, b"", b""))
        if sometimes():
            place, byte = draw(some.integers(20, len(head) - 5)), draw(some.sampled_from(_ODD_BYTES))
            head = head[:place] + byte + head[place + 1 :]
        heads.append(head)
    return heads


LIMITS = Limits(
    max_body_bytes=100_000,
    max_headers=20,
    max_header_bytes=4_096,
    max_in_flight=4,
    header_timeout_seconds=10.0,
    body_timeout_seconds=5.0,
    min_body_bytes_per_second=10,
    write_idle_timeout_seconds=30.0,
    keep_alive_seconds=75.0,
)
ANSWER = b'{"ok":true}'


async def answer_ok(exchange: Exchange, sink: Any) -> None:
    sink.start(200, (("content-type", "application/json"), ("content-length", str(len(ANSWER)))))
    sink.write(ANSWER)
    sink.end()


async def wait_for_ever(exchange: Exchange, sink: Any) -> None:
    await asyncio.Event().wait()


class FakeDispatcher:
    def __init__(self) -> None:
        self.connected_ahead = 0

    def connect_ahead(self) -> None:
        self.connected_ahead += 1


@dataclass
class FakePlan:
    limits: Limits = LIMITS
    models: ModelNames = field(default_factory=lambda: ModelNames({"quick": "spark"}, ("spark", "sage")))
    targets: dict = field(default_factory=lambda: {"spark": make_target(), "sage": make_target("sage", Tier.DEEP)})
    dispatcher: FakeDispatcher = field(default_factory=FakeDispatcher)
    window_of_auto: Tier = Tier.DEEP
    takes_callers_keys: bool = False
    keys: KeyRing | None = None
    metrics_key: bytes | None = None
    caller_limits: Any = NO_LIMITS
    shows_page: bool = True


class FakeEntries:
    """One decision each, for its caller alone."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, Caller], JsonObject] = {}

    async def find_decision(self, request_id: str, caller: Caller) -> JsonObject | None:
        return self.kept.get((request_id, caller))


class FakeResponses:
    def __init__(self) -> None:
        self.kept: dict[tuple[str, Caller], StoredResponse] = {}

    async def find(self, response_id: str, caller: Caller) -> StoredResponse | None:
        return self.kept.get((response_id, caller))

    async def forget(self, response_id: str, caller: Caller) -> bool:
        return self.kept.pop((response_id, caller), None) is not None


class FakeState:
    def __init__(self) -> None:
        self.entries, self.responses, self.live = FakeEntries(), FakeResponses(), LiveStatistics()
        self.speedups = Speedups()
        self.rates, self.budgets, self.running, self.files = CallerRates(), Budgets(), set(), {}
        self.shared: Any = None
        self.ended_jobs, self.metrics, self.ring = EndedJobs(), Metrics(), Ring()
        self.loop_watch, self.lasting = LoopWatch(), Lasting()
        links = Link(Part.METRICS, self.metrics, is_on=False), Link(Part.PAGE, self.ring, is_on=False)
        self.observers = Observers(links, print)


class FakeRoad:
    """Serves each exchange by `script`, and records it."""

    def __init__(self, script: Callable[[Exchange, Any], Awaitable[None]] = answer_ok, **limits: Any) -> None:
        self.script, self.clock = script, lambda: 0.0
        self.plan, self.state = FakePlan(structs.replace(LIMITS, **limits)), FakeState()
        self.clock = lambda: 0.0
        self.begun: list[Exchange] = []
        self.explained: list[Arrival] = []

    def begin(self, arrival: Arrival, company: Company | None = None) -> Exchange:
        exchange = Exchange(arrival, 0.0, Deadline(float("inf")), Observers((), print), company=company)
        self.begun.append(exchange)
        return exchange

    async def road(self, exchange: Exchange, sink: Any) -> None:
        await self.script(exchange, sink)

    async def explain(self, arrival: Arrival, plan: object = None) -> JsonObject:
        self.explained.append(arrival)
        return {"tier": "fast", "dialect": str(arrival.dialect)}

    def use(self, **limits: Any) -> None:
        """Swap in a plan with other limits, as a reload would."""
        self.plan = FakePlan(structs.replace(self.plan.limits, **limits))


class FakeTransport(asyncio.Transport):
    """Records writes. `unread` is what the caller has not taken yet."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unread = 0
        self.is_closed = self.is_aborted = self.has_eof = self.is_reading_paused = False
        self.protocol: asyncio.BaseProtocol | None = None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: Any) -> None:
        assert not self.has_eof
        self.written += bytes(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_eof = True

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol


class FakeSocket:
    def __init__(self) -> None:
        self.sent: list[JsonObject] = []
        self.is_paused = False

    def send(self, frames: list[bytes]) -> None:
        self.sent += map(json.loads, frames)


class Flow:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")


class ManualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now = 0.0
        super().__init__()

    def time(self) -> float:
        return self._now

    async def advance(self, seconds: float) -> None:
        self._now += seconds
        for _ in range(5):
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def running_edge(
    road: FakeRoad, is_ready: Callable[[], bool] = lambda: True, **built: Any
) -> AsyncIterator[tuple[int, Admission]]:
    """The whole edge before a fake road, on a free port. `built` are more fields of `Built`."""
    admission, app = build_edge(Built(road, **built), is_ready)
    ready = asyncio.Event()
    listener = bind("127.0.0.1", 0)
    server = Server(admission, app, drain_seconds=1, on_ready=ready.set)
    serving = later(server.serve([listener]))
    await asyncio.wait_for(ready.wait(), 30)
    try:
        yield listener.getsockname()[1], admission
    finally:
        server.stop()
        server.stop()
        await asyncio.wait_for(serving, 30)
        listener.close()
