"""A request that waits before its call for room in a quota."""

import asyncio
import json
import math

import pytest
from msgspec.structs import replace

from router.contract.caller import LOCAL, SessionKey
from router.contract.errors import Superseded, TiersBusy, Unavailable
from router.contract.exchange import CancelReason
from router.contract.facts import Dequeued, Queued
from router.contract.signals import Turn
from router.contract.sinks import Serving
from router.contract.sinks import Waiting as Waits
from router.contract.target import Quota
from router.contract.words import Dialect, Operation, Outcome, TurnKind
from router.dispatch.waiting import WaitingSink, await_turn, is_side_request
from router.limits.queue import TargetQueue
from router.limits.quota import WINDOW_SECONDS
from tests.tools.exchanges import RecordingSink, make_context, make_decided, make_decision, make_exchange
from tests.tools.loop_clock import seconds_passed
from tests.tools.values import ask, make_target, make_view
from tests.tools.waiting import later

pytestmark = pytest.mark.jumping_clock

SPARK = make_target()
STREAM, WHOLE = ask("fix it", stream=True), ask("fix it")
HEAD = (("x-tandem-tier", "fast"), ("x-tandem-target", "spark"), ("content-type", "text/event-stream"))


class Waiting:
    """A request that waits for a target whose quota is used up."""

    def __init__(self, view=STREAM, seconds=600.0, worth=math.inf, **quota):
        self.target = make_target(quota=Quota(**{"requests_per_minute": 1, **quota}))
        self.exchange, self.caller = make_exchange(seconds=seconds), RecordingSink()
        self.context = make_context(self.exchange, self.caller, seconds_passed, make_decided(worth_waiting_seconds=worth))
        self.sink = WaitingSink(self.caller, self.exchange, self.context.decision, view)
        self.queue = TargetQueue("spark", self.target.quota, seconds_passed)
        self.first = self.queue.hold(SessionKey(LOCAL, "other"), 100)
        self.turn = later(await_turn(self.context, view, self.target, self.queue, self.sink))

    def facts(self):
        return [type(fact) for fact in self.exchange.journal]


async def test_a_turn_comes_when_there_is_room_and_the_wait_is_noted():
    waiting = Waiting(WHOLE)

    await waiting.turn

    queued, dequeued = waiting.exchange.last(Queued), waiting.exchange.last(Dequeued)
    assert (queued.position, queued.length, queued.expected_seconds) == (1, 1, WINDOW_SECONDS)
    assert (dequeued.seconds, dequeued.has_turn) == (pytest.approx(WINDOW_SECONDS, abs=0.01), True)
    assert waiting.exchange.first_call_at() == queued.at == 0.0


async def test_with_room_nothing_is_noted_and_nobody_is_told_anything():
    waiting = Waiting(requests_per_minute=2)

    await waiting.turn

    assert (waiting.facts(), waiting.caller.told) == ([], [])


@pytest.mark.parametrize("more", [{"max_wait_seconds": 5}, {"seconds": 5.0}, {"worth": 5.0}])
async def test_a_wait_that_is_too_long_is_refused_at_once_with_its_length(more):
    waiting = Waiting(**more)

    with pytest.raises(TiersBusy) as refused:
        await waiting.turn

    assert (seconds_passed(), refused.value.retry_after_seconds) == (0.0, WINDOW_SECONDS)
    assert refused.value.message == "spark is at its quota of 1 request a minute for another 61 s"
    assert (waiting.queue.length, waiting.facts()) == (0, [])


async def test_a_turn_that_does_not_come_in_time_is_given_up():
    waiting = Waiting(seconds=WINDOW_SECONDS + 5)
    await asyncio.sleep(1)
    waiting.queue.meter.block(WINDOW_SECONDS + 30)

    with pytest.raises(TiersBusy):
        await waiting.turn

    assert waiting.queue.length == 0
    assert not waiting.exchange.last(Dequeued).has_turn
    assert seconds_passed() < 3  # it was to be seen


@pytest.fixture
async def waiting():
    return Waiting()


async def test_a_caller_who_leaves_leaves_the_queue(waiting):
    await asyncio.sleep(1)

    waiting.turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting.turn

    assert (waiting.queue.length, waiting.facts()) == (0, [Queued, Dequeued])


@pytest.mark.parametrize(("reason", "error"), [(CancelReason.STOPPING, Unavailable), (CancelReason.SUPERSEDED, Superseded)])
async def test_a_caller_who_is_still_there_is_told_why_the_wait_ends(waiting, reason, error):
    await asyncio.sleep(1)
    waiting.exchange.cancelled = reason

    waiting.turn.cancel()
    with pytest.raises(error):
        await waiting.turn

    assert waiting.queue.length == 0


async def test_a_stream_that_waits_gets_its_head_and_is_then_told_every_ten_seconds(waiting):
    await asyncio.sleep(9.9)
    assert waiting.caller.told == []

    await asyncio.sleep(10.2)

    headers = dict(waiting.caller.headers)
    assert (waiting.caller.status, headers["x-tandem-target"]) == (200, "queued")
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["x-accel-buffering"] == "no"  # else nginx holds the comments back
    assert headers["x-tandem-request-id"] == headers["x-request-id"] == "req_test"
    assert "x-tandem-tier" not in headers
    assert [replace(fact, seconds=round(fact.seconds)) for fact in waiting.caller.facts] == [
        Waits("spark", 1, 1, 51),
        Waits("spark", 1, 1, 41),
    ]
    assert waiting.caller.body == b""
    waiting.turn.cancel()
    waiting.sink.close()


async def test_who_serves_is_told_as_a_fact_once_the_head_is_out(waiting):
    await waiting.turn
    sink = waiting.sink

    sink.start(200, HEAD)
    sink.write(b"data: {}\n\n")
    sink.end()

    assert waiting.caller.facts[-1] == Serving(HEAD)
    assert waiting.caller.body == b"data: {}\n\n"
    assert [word for word in waiting.caller.words if word != "tell"] == ["start", "write", "end"]


async def test_before_that_the_head_is_the_targets_own():
    waiting = Waiting(requests_per_minute=2)

    waiting.sink.start(200, HEAD)
    await asyncio.sleep(60)

    assert waiting.caller.headers == HEAD
    assert waiting.caller.body == b""


async def test_while_a_target_is_called_only_a_stream_that_has_its_head_gets_heartbeats(waiting):
    await asyncio.sleep(9)
    waiting.queue.follow(Quota())
    await waiting.turn
    await asyncio.sleep(30)
    assert waiting.caller.told == []
    waiting.sink.close()

    begun = Waiting()
    await begun.turn
    before = len(begun.caller.body)
    await asyncio.sleep(21)

    assert begun.caller.body[before:] == b": heartbeat\n\n: heartbeat\n\n"
    begun.sink.close()


@pytest.mark.parametrize(
    ("error", "cancelled", "outcome"),
    [
        (TiersBusy("all busy"), None, Outcome.FAILED),
        (Superseded("newer"), None, Outcome.SUPERSEDED),
        (Unavailable("the router is shutting down"), CancelReason.STOPPING, Outcome.CUT_SHORT),
    ],
)
async def test_a_failure_after_the_head_is_an_event_and_no_proper_end(waiting, error, cancelled, outcome):
    await waiting.turn
    waiting.exchange.cancelled = cancelled

    ending = waiting.sink.break_off(error)
    waiting.sink.close()

    assert (ending.outcome, ending.status, ending.error) == (outcome, 200, error)
    event = json.loads(waiting.caller.body.split(b"\n\n")[-2].removeprefix(b"data: "))
    assert event["error"]["code"] == error.code
    assert waiting.caller.words[-1] == "fail"


@pytest.mark.parametrize(
    ("kind", "operation", "dialect", "is_one"),
    [
        (TurnKind.SIDE, Operation.CREATE, Dialect.CHAT, True),
        (TurnKind.ASK, Operation.CREATE, Dialect.CHAT, False),
        (TurnKind.TOOL_LOOP, Operation.CREATE, Dialect.CHAT, False),
        (TurnKind.SIDE, Operation.COUNT_TOKENS, Dialect.MESSAGES, False),
        (TurnKind.SIDE, Operation.CREATE, Dialect.COMPLETIONS, False),
    ],
)
def test_titles_and_the_like_are_asked_aside_and_what_nobody_waits_a_slot_for_is_not(kind, operation, dialect, is_one):
    body = {"prompt": "x"} if dialect is Dialect.COMPLETIONS else {"messages": [{"role": "user", "content": "x"}]}
    view = make_view(body, dialect, operation=operation)

    assert is_side_request(make_decision(turn=Turn(kind, "s", "test", "hello")), view) is is_one
