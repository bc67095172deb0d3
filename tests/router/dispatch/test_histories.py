"""Any history of many requests and targets that fail: what holds in all of them. The whole road in memory, on a clock that jumps."""

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from router.contract.errors import UpstreamCut, UpstreamTimeout, UpstreamUnreachable
from router.contract.exchange import CancelReason
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, FirstByte
from router.contract.words import Tier
from router.limits.retries import RetryLimit
from tests.tools.houses import Walk, make_house
from tests.tools.loop_clock import jumping_clock, seconds_passed
from tests.tools.scripted import EVENTS, answers, fails, hangs, reach, streams
from tests.tools.upstream import CHAT_ANSWER, GOOD_CHAT_STREAM, chat_frame
from tests.tools.values import make_target

pytestmark = pytest.mark.jumping_clock

TARGETS = (make_target("spark"), make_target("owl"), make_target("sage", Tier.DEEP))
DEADLINE_SECONDS = 40.0
JSON = ("content-type", "application/json")


def busy(status, seconds):
    return answers({"error": {"message": "later"}}, status, (JSON, ("retry-after", str(seconds))))


def speaks(sink):
    """A good answer, in the form that was asked for."""
    is_streaming = sink.view.is_streaming
    (streams(*GOOD_CHAT_STREAM) if is_streaming else answers(CHAT_ANSWER))(sink)


def breaks_off(sink):
    sink.start(200, EVENTS)
    sink.write(chat_frame("a"))
    sink.fail(UpstreamCut("x", "gone"))


def falls_silent(sink):
    sink.start(200, EVENTS)
    sink.write(chat_frame("a"))


SCRIPTS = some.one_of(
    some.just(speaks),
    some.sampled_from([400, 401, 404, 413, 422, 429, 500, 503, 529]).map(lambda status: answers({"error": {}}, status)),
    some.builds(busy, some.sampled_from([429, 503, 529]), some.sampled_from([0, 0.5, 3, 20, 200])),
    some.sampled_from([UpstreamUnreachable, UpstreamTimeout]).map(lambda kind: fails(kind("x", "gone"))),
    some.sampled_from([hangs, breaks_off, falls_silent, streams(b": wait\n\n"), answers(b"<html>")]),
)
PLAYS = some.lists(some.tuples(some.sampled_from([0.0, 0.01, 0.3, 2.0, 15.0]), SCRIPTS), min_size=1, max_size=10)
ARRIVALS = some.lists(
    some.tuples(
        some.sampled_from([0.0, 0.0, 0.0, 0.1, 1.0, 5.0, 12.0, 30.0]),
        some.booleans(),
        some.one_of(some.none(), some.sampled_from([0.0, 0.2, 3.0])),
    ),
    min_size=1,
    max_size=40,
)
"""When each request comes, whether it streams, and after how long its caller leaves, if it does."""


def later(seconds, script):
    return lambda sink: asyncio.get_running_loop().call_later(seconds, script, sink)


async def over(walk):
    """Wait for its end. A step that must not be made is a defect, and raises."""
    await asyncio.wait([walk.task])
    if not walk.task.cancelled():
        walk.task.result()


class CheckedLimit(RetryLimit):
    """A limit that no attempt may overdraw, but for one at each target that nobody had asked."""

    __slots__ = ("house",)

    async def hold(self, target):
        retry = await super().hold(target)
        active, spent = len(self.house.state.running), self.under_way.total() + len(self.failed_at)
        assert spent <= max(3, active // 5) + len(TARGETS)
        return retry


class Watcher:
    """Checks each step as it is made."""

    def __init__(self):
        self.house = None

    def handlers(self):
        return {AttemptOpened: self._open, Decided: self._decide}

    def _open(self, exchange, fact):
        assert exchange.last(FirstByte) is None, "a retry after a byte"
        assert fact.at < exchange.deadline.at, "a call after the deadline"

    def _decide(self, exchange, fact):
        """A request under `auto` is given a target, and never one that asked to be left alone until later."""
        statuses = self.house.state.live.statuses(self.house.plan.targets, self.house.clock())
        decision = fact.decision
        assert decision.targets or decision.spill
        first = (decision.targets or decision.spill)[0]
        if statuses[first].closed_seconds:
            assert statuses[first].may_probe, "a call to a target that asked to be left alone"
            assert all(statuses[name].closed_seconds for name in (*decision.targets, *decision.spill))


async def play(plays, arrivals):
    watcher = Watcher()
    reached = [reach(target, *(later(*one) for one in some_plays)) for target, some_plays in zip(TARGETS, plays, strict=True)]
    house = make_house(*reached, observers=(watcher,), deadline_seconds=DEADLINE_SECONDS)
    watcher.house = house
    live = house.state.live
    live.retries = CheckedLimit()
    live.retries.house = house
    walks = []

    async def one(number, at, is_streaming, leaves_after):
        await asyncio.sleep(at)
        walk = Walk(house, name=f"req_{number}", stream=is_streaming)
        walks.append(walk)
        if leaves_after is not None:
            await asyncio.sleep(leaves_after)
            walk.exchange.cancel(CancelReason.CALLER_LEFT)
        await over(walk)

    await asyncio.gather(*(one(number, *arrival) for number, arrival in enumerate(arrivals)))
    return house, walks


def check_end(walk):
    """One answer at most, and a refusal that says when to come again where it must."""
    heard = [name for name, *_ in walk.sink.told]
    assert heard.count("start") <= 1
    assert heard.count("end") + heard.count("fail") <= 1
    left = walk.exchange.cancelled is CancelReason.CALLER_LEFT
    assert left or ("start" in heard and ("end" in heard or "fail" in heard))
    if walk.sink.status == 429:
        assert 1 <= int(walk.headers["retry-after"]) <= 60
        assert 0 < int(walk.headers["retry-after-ms"]) <= 60_000
    if walk.sink.status in (502, 503, 504):
        attempts = [fact for fact in walk.exchange.journal if isinstance(fact, AttemptEnded)]
        assert attempts, "a request was left without any target"
        if len(attempts) > 1 and walk.sink.status != 503:
            assert walk.headers["x-should-retry"] == "false"


@settings(max_examples=80)
@given(some.tuples(PLAYS, PLAYS, PLAYS), ARRIVALS)
def test_in_any_history_every_request_ends_in_time_and_nothing_is_retried_after_a_byte_or_beyond_the_budget(plays, arrivals):
    @jumping_clock
    async def run():
        house, walks = await play(plays, arrivals)

        for walk in walks:
            check_end(walk)
        assert seconds_passed() <= max(at for at, *_ in arrivals) + DEADLINE_SECONDS + 0.001
        live = house.state.live
        assert not house.state.running
        assert all(status.in_flight == 0 for status in live.statuses(house.plan.targets, house.clock() + 1).values())
        assert live.retries.under_way.total() == 0

    run()


async def test_refusals_that_blame_the_request_do_not_overdraw_the_budget_of_second_attempts():
    _, walks = await play(
        ([(0.0, answers({"error": {}}, 401))], [(0.0, answers({"error": {}}, 401))], [(0.0, answers({"error": {}}, 400))]),
        [(0.0, False, None)] * 4,
    )

    assert [walk.sink.status for walk in walks] == [400] * 4


async def test_where_all_targets_are_closed_by_a_wrong_time_one_request_a_minute_finds_out():
    is_wrong = True

    def errs(sink):
        (busy(429, 86_400) if is_wrong else speaks)(sink)

    reached = [reach(target, errs) for target in TARGETS]
    house = make_house(*reached, deadline_seconds=DEADLINE_SECONDS)
    seen = []
    for minute in range(4):
        is_wrong = minute < 3
        calls = sum(len(each.adapter.opened) for each in reached)
        walks = [Walk(house, name=f"req_{minute}_{number}") for number in range(5)]
        for walk in walks:
            await over(walk)
        probed = sum(len(each.adapter.opened) for each in reached) - calls
        seen.append((probed, sorted(walk.sink.status for walk in walks)))
        await asyncio.sleep(60.5)

    assert [calls for calls, _ in seen[1:3]] == [len(TARGETS)] * 2, "more than one request was sent"
    assert seen[3][1] == [200, 429, 429, 429, 429]


@settings(max_examples=40)
@given(
    some.lists(some.sampled_from([0.7, 4.0, 30.0, 55.0, 900.0, 86_400.0]), min_size=3, max_size=3),
    some.lists(some.sampled_from([429, 503, 529]), min_size=3, max_size=3),
    some.floats(0, 0.5),
)
def test_where_every_target_named_a_time_the_caller_hears_the_smallest_that_is_left(waits, statuses, passed):
    @jumping_clock
    async def run():
        reached = [reach(target, busy(*how)) for target, how in zip(TARGETS, zip(statuses, waits, strict=True), strict=True)]
        house = make_house(*reached, deadline_seconds=DEADLINE_SECONDS)
        first = Walk(house, name="req_1")
        await over(first)
        calls = sum(len(each.adapter.opened) for each in reached)
        await asyncio.sleep(passed)
        second = Walk(house, name="req_2")
        await over(second)

        assert calls == len(TARGETS)
        assert first.sink.status == (429 if 429 in statuses else 503)
        assert int(first.headers["retry-after"]) == min(60, math.ceil(min(waits)))
        assert sum(len(each.adapter.opened) for each in reached) == calls
        assert second.sink.status == 429
        assert int(second.headers["retry-after"]) == min(60, max(1, math.ceil(min(waits) - passed)))

    run()


@settings(max_examples=40)
@given(some.lists(some.tuples(some.sampled_from([0.0, 0.3, 1.1, 2.5, 9.0]), some.booleans()), min_size=8, max_size=40))
def test_however_often_every_target_fails_a_request_still_goes_to_one_and_names_no_time(history):
    @jumping_clock
    async def run():
        healthy = False

        def fickle(sink):
            (speaks if healthy else answers({"error": {}}, 500))(sink)

        reached = [reach(target, fickle) for target in TARGETS]
        house = make_house(*reached, deadline_seconds=DEADLINE_SECONDS)
        for number, (pause, healthy) in enumerate(history):
            await asyncio.sleep(pause)
            calls = sum(len(each.adapter.opened) for each in reached)
            walk = Walk(house, name=f"req_{number}")
            await over(walk)
            assert sum(len(each.adapter.opened) for each in reached) > calls
            assert walk.sink.status == (200 if healthy else 502)
            assert healthy or "retry-after" not in walk.headers

    run()
