import asyncio
import json
import math

import pytest

from router.contract.caller import LOCAL, SessionKey
from router.contract.errors import Superseded, TiersBusy, Unavailable, UpstreamRefused
from router.contract.exchange import CancelReason
from router.contract.facts import Dequeued, Queued
from router.contract.target import Quota
from router.contract.words import Dialect, Outcome
from router.dispatch.context import DispatchContext
from router.dispatch.queues.queue import TargetQueue
from router.dispatch.queues.quota import WINDOW_SECONDS
from router.dispatch.queues.waiting import WaitingSink, await_turn
from tests.tools.exchanges import make_decision, make_exchange
from tests.tools.later import later
from tests.tools.loop_clock import jumping_clock, seconds_passed
from tests.tools.sinks import RecordingSink
from tests.tools.values import ask, make_target, make_view

STREAM, WHOLE = ask("fix it", stream=True), ask("fix it")
HEAD = (("x-tandem-tier", "fast"), ("x-tandem-target", "spark"), ("content-type", "text/event-stream"))


class Waiting:
    """A request that waits for a target whose quota is used up."""

    def __init__(self, view=STREAM, seconds=600.0, worth=math.inf, **quota):
        self.target = make_target(quota=Quota(**{"requests_per_minute": 1, **quota}))
        self.exchange, self.caller = make_exchange(seconds=seconds), RecordingSink()
        self.context = DispatchContext(self.exchange, make_decision(), self.caller, 1 << 20, seconds_passed)
        self.queue = TargetQueue("spark", self.target.quota)
        self.first = self.queue.enter(SessionKey(LOCAL, "other"), 100, seconds_passed)
        self.turn = later(await_turn(self.context, view, self.target, self.queue, lambda _: worth))

    def facts(self):
        return [type(fact) for fact in self.exchange.journal]


@jumping_clock
async def test_a_turn_comes_when_there_is_room_and_the_wait_is_noted():
    waiting = Waiting(WHOLE)

    permit = await waiting.turn

    queued, dequeued = waiting.exchange.last(Queued), waiting.exchange.last(Dequeued)
    assert permit.who == SessionKey(LOCAL, "session")
    assert (queued.position, queued.length, queued.expected_seconds) == (1, 1, WINDOW_SECONDS)
    assert (dequeued.seconds, dequeued.has_turn) == (pytest.approx(WINDOW_SECONDS, abs=0.01), True)
    assert waiting.context.first_call_at == 0.0


@jumping_clock
async def test_with_room_nothing_is_noted_and_nobody_is_told_anything():
    waiting = Waiting(requests_per_minute=2)

    await waiting.turn

    assert (waiting.facts(), waiting.caller.told, waiting.context.sink) == ([], [], waiting.caller)


@pytest.mark.parametrize("more", [{"max_wait_seconds": 5}, {"seconds": 5.0}, {"worth": 5.0}])
@jumping_clock
async def test_a_wait_that_is_too_long_is_refused_at_once_with_its_length(more):
    waiting = Waiting(**more)

    with pytest.raises(TiersBusy) as refused:
        await waiting.turn

    assert (seconds_passed(), refused.value.retry_after_seconds) == (0.0, WINDOW_SECONDS)
    assert refused.value.message == "spark is at its quota of 1 request a minute for another 61 s"
    assert (waiting.queue.length, waiting.facts()) == (0, [])


@jumping_clock
async def test_a_caller_bounds_its_wait_by_a_header():
    waiting = Waiting(ask("fix it", headers={"x-tandem-max-wait": "3"}))

    with pytest.raises(TiersBusy):
        await waiting.turn


@jumping_clock
async def test_a_turn_that_does_not_come_in_time_is_given_up():
    waiting = Waiting(seconds=WINDOW_SECONDS + 5)
    await asyncio.sleep(1)
    waiting.queue.meter.block(WINDOW_SECONDS + 30)

    with pytest.raises(TiersBusy):
        await waiting.turn

    assert waiting.queue.length == 0
    assert not waiting.exchange.last(Dequeued).has_turn
    assert seconds_passed() < 3  # it was to be seen


@jumping_clock
async def test_a_caller_who_leaves_leaves_the_queue():
    waiting = Waiting()
    await asyncio.sleep(1)

    waiting.turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting.turn

    assert (waiting.queue.length, waiting.facts()) == (0, [Queued, Dequeued])


@pytest.mark.parametrize(("reason", "error"), [(CancelReason.STOPPING, Unavailable), (CancelReason.SUPERSEDED, Superseded)])
@jumping_clock
async def test_a_caller_who_is_still_there_is_told_why_the_wait_ends(reason, error):
    waiting = Waiting()
    await asyncio.sleep(1)
    waiting.exchange.cancelled = reason

    waiting.turn.cancel()
    with pytest.raises(error):
        await waiting.turn

    assert waiting.queue.length == 0


@jumping_clock
async def test_a_stream_that_waits_gets_its_head_and_then_a_comment_every_ten_seconds():
    waiting = Waiting()
    await asyncio.sleep(9.9)
    assert waiting.caller.told == []

    await asyncio.sleep(10.2)

    headers = dict(waiting.caller.headers)
    assert (waiting.caller.status, headers["x-tandem-target"]) == (200, "queued")
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["x-accel-buffering"] == "no"  # else nginx holds the comments back
    assert headers["x-tandem-request-id"] == headers["x-request-id"] == "req_test"
    assert "x-tandem-tier" not in headers
    assert waiting.caller.body == (
        b": waiting for spark, position 1 of 1, about 51 s\n\n: waiting for spark, position 1 of 1, about 41 s\n\n"
    )
    waiting.turn.cancel()
    waiting.context.sink.close()


@jumping_clock
async def test_an_answer_in_one_piece_gets_no_heartbeat():
    waiting = Waiting(WHOLE)

    await waiting.turn

    assert waiting.caller.told == []


@jumping_clock
async def test_who_serves_is_told_in_a_comment_once_the_head_is_out():
    waiting = Waiting()
    await waiting.turn
    sink = waiting.context.sink

    sink.start(200, HEAD)
    sink.write(b"data: {}\n\n")
    sink.end()

    comment, event = waiting.caller.body.split(b"\n\n")[-3:-1]
    assert json.loads(comment.removeprefix(b": tandem.decision ")) == {"tier": "fast", "target": "spark"}
    assert event == b"data: {}"
    assert [word for word in waiting.caller.words if word != "write"] == ["start", "end"]


@jumping_clock
async def test_before_that_the_head_is_the_targets_own():
    context = Waiting(requests_per_minute=2).context
    sink = WaitingSink(context.sink, context, STREAM, 10.0)

    sink.start(200, HEAD)
    await asyncio.sleep(60)

    assert context.sink.headers == HEAD
    assert context.sink.body == b""


@jumping_clock
async def test_while_a_target_is_called_only_a_stream_that_has_its_head_gets_heartbeats():
    waiting = Waiting()
    await asyncio.sleep(9)
    waiting.queue.follow(Quota())
    await waiting.turn
    await asyncio.sleep(30)
    assert waiting.caller.told == []
    waiting.context.sink.close()

    begun = Waiting()
    await begun.turn
    before = len(begun.caller.body)
    await asyncio.sleep(21)

    assert begun.caller.body[before:] == b": heartbeat\n\n: heartbeat\n\n"
    begun.context.sink.close()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(TiersBusy("all busy"), Outcome.FAILED), (Superseded("newer"), Outcome.SUPERSEDED)],
)
@jumping_clock
async def test_a_failure_after_the_head_is_an_event_and_no_proper_end(error, outcome):
    waiting = Waiting()
    await waiting.turn

    ending = waiting.context.sink.break_off(error)
    waiting.context.sink.close()

    assert (ending.outcome, ending.status, ending.error) == (outcome, 200, error)
    event = json.loads(waiting.caller.body.split(b"\n\n")[-2].removeprefix(b"data: "))
    assert event["error"]["code"] == error.code
    assert waiting.caller.words[-1] == "fail"


@jumping_clock
async def test_a_router_that_stops_cuts_a_waiting_stream_short():
    waiting = Waiting()
    await waiting.turn
    waiting.exchange.cancelled = CancelReason.STOPPING

    ending = waiting.context.sink.break_off(Unavailable("the router is shutting down"))
    waiting.context.sink.close()

    assert ending.outcome is Outcome.CUT_SHORT


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES])
@jumping_clock
async def test_what_a_target_says_against_a_request_is_told_in_its_own_words(dialect):
    bodies = {Dialect.RESPONSES: {"input": "x"}, Dialect.MESSAGES: {"messages": [], "max_tokens": 5}, Dialect.CHAT: {}}
    content = {"messages": [{"role": "user", "content": "x"}]} if dialect is not Dialect.RESPONSES else {}
    waiting = Waiting(make_view({**bodies[dialect], **content, "stream": True}, dialect))
    await waiting.turn

    waiting.context.sink.break_off(UpstreamRefused("spark", 400, b'{"error":{"message":"no such tool","code":"bad_tool"}}', ""))
    waiting.context.sink.close()

    assert b"no such tool" in waiting.caller.body
    assert b"bad_tool" in waiting.caller.body
