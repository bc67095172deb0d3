"""Engines with one slot in a house on a jumping clock: who waits, who moves, who goes first."""

import asyncio
import json
from collections import deque

import pytest

from policies.override import OverridePolicy
from policies.side_request import SideRequestPolicy
from router.contract.relay import OutgoingRequest, Sink
from router.contract.target import Quota, Speed
from router.contract.words import Tier
from router.dialects.fitting import Fit
from router.dispatch.outgoing import Reachable
from router.edge.control.stats import draw
from tests.tools.houses import Walk, make_house
from tests.tools.loop_clock import jumping_clock, seconds_passed
from tests.tools.scripted import EVENTS
from tests.tools.upstream import DONE, chat_frame
from tests.tools.values import make_target
from tests.tools.waiting import by_the_clock

PIECE_SECONDS = 0.5


class EngineCall:
    def __init__(self, engine: "SlotEngine", request: OutgoingRequest, sink: Sink) -> None:
        self.engine, self.sink, self.body = engine, sink, json.loads(request.body)
        self.opened_at = asyncio.get_running_loop().time()
        self.begun_at: float | None = None
        self.ended_at: float | None = None
        self.is_cancelled = False

    @property
    def tokens(self) -> int:
        return min(self.engine.answer_tokens, self.body.get("max_tokens") or self.engine.answer_tokens)

    def pause(self) -> None: ...
    def resume(self) -> None: ...

    def begin(self) -> None:
        loop, engine = asyncio.get_running_loop(), self.engine
        loop.call_later(engine.ttft_seconds, self._start)
        loop.call_later(engine.ttft_seconds + self.tokens / engine.tokens_per_second, self._end)

    def _start(self) -> None:
        if not self.is_cancelled:
            self.begun_at = asyncio.get_running_loop().time()
            self.sink.start(200, EVENTS)
            self._write()

    def _write(self) -> None:
        """A piece now and then, since silent streams are given up."""
        if not self.is_cancelled and self.ended_at is None:
            self.sink.write(chat_frame("a"))
            asyncio.get_running_loop().call_later(PIECE_SECONDS, self._write)

    def _end(self) -> None:
        if not self.is_cancelled:
            self.ended_at = asyncio.get_running_loop().time()
            self.engine.release(self)
            usage = {"prompt_tokens": 10, "completion_tokens": self.tokens, "total_tokens": 10 + self.tokens}
            told = json.dumps({"id": "c", "choices": [], "usage": usage}).encode()
            self.sink.write(chat_frame(finish="stop") + b"data: " + told + b"\n\n" + DONE)
            self.sink.end()

    def cancel(self) -> None:
        if not self.is_cancelled and self.ended_at is None:
            self.is_cancelled = True
            self.engine.release(self)


class SlotEngine:
    def __init__(self, slots: int = 1, *, ttft_seconds=0.1, tokens_per_second=60.0, answer_tokens=120) -> None:
        self.slots, self.ttft_seconds = slots, ttft_seconds
        self.tokens_per_second, self.answer_tokens = tokens_per_second, answer_tokens
        self.calls: list[EngineCall] = []
        self._running: list[EngineCall] = []
        self._line: deque[EngineCall] = deque()

    def open(self, request: OutgoingRequest, sink: Sink) -> EngineCall:
        call = EngineCall(self, request, sink)
        self.calls.append(call)
        sink.feed_from(call)
        self._line.append(call)
        asyncio.get_running_loop().call_soon(self._fill)
        return call

    def release(self, call: EngineCall) -> None:
        if call in self._running:
            self._running.remove(call)
        elif call in self._line:
            self._line.remove(call)
        asyncio.get_running_loop().call_soon(self._fill)

    def _fill(self) -> None:
        while self._line and len(self._running) < self.slots:
            call = self._line.popleft()
            self._running.append(call)
            call.begin()


def reach_engine(target, engine: SlotEngine) -> Reachable:
    return Reachable(target, engine, f"{target.name}-model", Fit())


GUESSED = Speed(0.3, 60, 2_000)
ONE = Quota(in_flight=1)
TITLE = [
    {"role": "system", "content": "You are a title generator. You output ONLY a thread title. Nothing else."},
    {"role": "user", "content": "fix it"},
]
FAST = {"x-tandem-tier": "fast"}


class Setting:
    """A house with one-slot fast engines and an idle deep tier."""

    def __init__(self, *engines: SlotEngine, quota: Quota | None = None, typical: Speed = GUESSED) -> None:
        self.engines = engines
        names = [f"tiny{number}" for number in range(len(engines))]
        targets = [make_target(name, typical=typical, quota=quota) for name in names]
        sage = make_target("sage", Tier.DEEP, typical=Speed(0.9, 40, 60_000))
        deep = reach_engine(sage, SlotEngine(100, ttft_seconds=0.9, tokens_per_second=40))
        policies = (OverridePolicy(OverridePolicy.Config()), SideRequestPolicy(SideRequestPolicy.Config()))
        reachable = map(reach_engine, targets, engines)
        self.house = make_house(*reachable, deep, base_rate=0.01, policies=policies)
        self.walks: list[Walk] = []
        self.begun_at: dict[Walk, float] = {}

    def ask(self, session: str = "", headers=None, **body) -> Walk:
        own = {**(headers or {}), **({"x-tandem-session": session} if session else {})}
        walk = Walk(self.house, name=f"req_{len(self.walks)}", headers=own, stream=True, **body)
        self.walks.append(walk)
        start, write = walk.sink.start, walk.sink.write

        def begin(data: bytes) -> None:
            self.begun_at.setdefault(walk, seconds_passed())
            write(data)

        walk.sink.start, walk.sink.write = start, begin
        return walk

    async def learn(self) -> None:
        """Let three answers show how long they take."""
        for walk in [self.ask(headers=FAST, max_tokens=120) for _ in range(3)]:
            await walk.task
        await by_the_clock(1.0)

    def stats(self, name: str = "tiny0") -> dict:
        return draw(self.house.state.live, self.house.plan.targets, seconds_passed())[name]

    async def finish(self) -> None:
        for walk in self.walks:
            walk.task.cancel()
        await asyncio.wait([walk.task for walk in self.walks])


def target_of(walk: Walk) -> str:
    return walk.headers["x-tandem-target"]


@jumping_clock
async def test_the_wait_counts_all_calls_under_way():
    setting = Setting(SlotEngine(answer_tokens=600), quota=ONE)
    await setting.learn()  # answers of 2 s
    for _ in range(4):
        setting.ask(headers=FAST, max_tokens=120)
    await asyncio.sleep(1.0)

    assert setting.stats()["wait_seconds"] == pytest.approx(4 * 2.1 - 1.0, abs=1.0)
    walk = setting.ask()
    await walk.task

    assert target_of(walk) == "sage"
    assert "tiny0 is at its quota of 1 at once for another 8 s, so deep is done sooner" in walk.headers["x-tandem-because"]
    await setting.finish()


@pytest.mark.parametrize("pause", [0.05, 1.0])
def test_of_six_quick_asks_after_five_long_streams_none_waits_for_them(pause):
    @jumping_clock
    async def run():
        setting = Setting(SlotEngine(answer_tokens=1_500), quota=ONE)
        await setting.learn()
        for _ in range(5):
            setting.ask(headers=FAST)  # 25 s each
        await asyncio.sleep(pause)
        asked_at, asks = seconds_passed(), [setting.ask() for _ in range(6)]
        await asyncio.gather(*(ask.task for ask in asks))

        assert [target_of(ask) for ask in asks] == ["sage"] * 6
        assert max(setting.begun_at[ask] - asked_at for ask in asks) == pytest.approx(0.9, abs=0.1)
        await setting.finish()

    run()


@pytest.mark.parametrize("title_first", [True, False])
def test_a_title_that_comes_with_its_sessions_turn_is_served_after_it(title_first):
    @jumping_clock
    async def run():
        setting = Setting(SlotEngine(), quota=ONE)
        await setting.learn()
        asked_at = seconds_passed()
        walks = {}
        for kind in ("title", "turn") if title_first else ("turn", "title"):
            more = {"messages": TITLE, "headers": FAST} if kind == "title" else {}
            walks[kind] = setting.ask("s", **more)
            await asyncio.sleep(0.005)
        await asyncio.gather(*(walk.task for walk in walks.values()))

        assert [target_of(walk) for walk in walks.values()] == ["tiny0"] * 2
        assert setting.begun_at[walks["turn"]] - asked_at == pytest.approx(0.1, abs=0.01)
        assert setting.begun_at[walks["title"]] > setting.begun_at[walks["turn"]] + 2.0

    run()


@jumping_clock
async def test_a_title_that_nothing_else_comes_with_waits_a_moment_and_no_longer():
    setting = Setting(SlotEngine(), quota=Quota(in_flight=1))
    title = setting.ask("s", messages=TITLE, headers=FAST)
    await title.task

    assert setting.begun_at[title] == pytest.approx(0.3 + 0.1, abs=0.01)


@pytest.mark.parametrize("quota", [None, Quota(in_flight=2)])
def test_where_more_calls_fit_a_side_request_does_not_wait(quota):
    @jumping_clock
    async def run():
        setting = Setting(SlotEngine(slots=2), quota=quota)
        title = setting.ask("s", messages=TITLE, headers=FAST)
        await title.task

        assert setting.begun_at[title] == pytest.approx(0.1, abs=0.01)

    run()


@pytest.mark.parametrize("in_flight", [1, None])
def test_two_equal_engines_share_asks_that_come_in_one_moment(in_flight):
    @jumping_clock
    async def run():
        engines = SlotEngine(), SlotEngine()
        setting = Setting(*engines, quota=Quota(in_flight=in_flight) if in_flight else None)
        asks = [setting.ask(headers=FAST) for _ in range(8)]
        await asyncio.gather(*(ask.task for ask in asks))

        assert [len(engine.calls) for engine in engines] == [4, 4]

    run()


@jumping_clock
async def test_a_session_stays_where_its_prefix_is_warm():
    engines = SlotEngine(slots=4), SlotEngine(slots=4)
    setting = Setting(*engines)
    said = [{"role": "user", "content": "fix it " * 400}]
    first = setting.ask("s", messages=said, headers=FAST)
    await first.task
    other = setting.ask("o", headers=FAST)
    await asyncio.sleep(0.2)
    said += [{"role": "assistant", "content": "a"}, {"role": "user", "content": "go on"}]
    second = setting.ask("s", messages=said, headers=FAST)
    await asyncio.gather(other.task, second.task)

    assert target_of(first) == target_of(second)
