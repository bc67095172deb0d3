import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from router.contract.caller import LOCAL, Caller, SessionKey
from router.contract.entry import Attempt
from router.contract.errors import UpstreamRefused
from router.contract.facts import AttemptEnded
from router.contract.target import Quota
from router.contract.usage import Usage
from router.limits.queue import TargetQueue
from router.limits.quota import WINDOW_SECONDS
from tests.tools.allowances import Pool
from tests.tools.loop_clock import JumpingLoop, jumping_clock, seconds_passed
from tests.tools.values import make_target

pytestmark = pytest.mark.jumping_clock

A, B, C = (SessionKey(Caller(name), "s") for name in "abc")
SPARK = make_target()


def queue_of(**quota):
    return TargetQueue("spark", Quota(**quota), seconds_passed)


def enter(queue, who=A, tokens=100):
    return queue.hold(who, tokens)


def ended(error=None, usage=None):
    return AttemptEnded(0.0, SPARK, Attempt("spark", 200, None, 1.0), error, usage, None)


def served(waiters):
    return [waiter.who.caller.name for waiter in waiters if waiter.permit is not None]


async def test_who_waits_is_let_in_the_moment_there_is_room():
    queue = queue_of(requests_per_minute=1)
    enter(queue)
    waiter = enter(queue)

    await waiter.let_in

    assert seconds_passed() == pytest.approx(WINDOW_SECONDS, abs=0.01)
    assert queue.length == 0


@pytest.fixture
def queue():
    return queue_of(in_flight=1)


async def test_callers_take_turns_and_each_is_served_in_order_of_arrival(queue):
    permit = enter(queue).permit
    other_session = SessionKey(A.caller, "other")
    waiters = [enter(queue, who) for who in (A, other_session, A, B, B, C)]
    told = [queue.look(waiter, 0.0) for waiter in waiters]
    newcomer = queue.expect(SessionKey(Caller("d"), "s"), 100, 0.0)
    order = []
    for _ in waiters:
        permit.settle([ended()], seconds_passed())
        (now_served,) = [waiter for waiter in waiters if waiter.permit and waiter not in order]
        order.append(now_served)
        permit = now_served.permit

    assert [waiters.index(waiter) for waiter in order] == [3, 5, 0, 4, 1, 2]
    assert [(each.position, each.length) for each in told] == [(3, 6), (5, 6), (6, 6), (1, 6), (4, 6), (2, 6)]
    assert newcomer.position == 3


async def test_a_caller_with_a_long_queue_starves_nobody():
    queue = queue_of(requests_per_minute=4)
    for _ in range(20):
        enter(queue)
    modest = [enter(queue, who) for who in (B, B, C)]

    await asyncio.sleep(WINDOW_SECONDS + 0.1)

    assert served(modest) == ["b", "b", "c"]


async def test_who_leaves_in_the_moment_of_its_turn_gives_it_back():
    queue = queue_of(requests_per_minute=1)
    enter(queue)
    first, second = enter(queue, B), enter(queue, C)
    await first.let_in

    queue.leave(first)

    assert second.permit is not None
    assert queue.meter.requests == 1


async def test_what_a_call_really_took_counts_once_it_is_known():
    queue = queue_of(tokens_per_minute=1_000)
    permit = enter(queue, tokens=500).permit
    waiter = enter(queue, B, tokens=500)
    assert waiter.permit is None

    permit.settle([ended(usage=Usage(20, 30))], seconds_passed())

    assert waiter.permit is not None


async def test_a_guess_of_what_it_took_changes_nothing():
    queue = queue_of(tokens_per_minute=1_000)
    permit = enter(queue, tokens=500).permit

    permit.settle([ended(usage=Usage(20, 30, is_estimated=True))], seconds_passed())

    assert queue.meter.tokens == 900


async def test_a_provider_that_refuses_for_its_limit_is_left_alone_for_as_long_as_it_says():
    queue = queue_of(requests_per_minute=60)
    refused = UpstreamRefused("spark", 429, b"", "", retry_after_seconds=7.0)
    enter(queue).permit.settle([ended(error=refused)], seconds_passed())
    waiter = enter(queue)
    assert queue.look(waiter, 0.0).because == "is at its rate limit for another 7 s"

    await waiter.let_in

    assert seconds_passed() == pytest.approx(7.0, abs=0.01)


async def test_a_new_quota_counts_at_once_for_who_waits_and_what_was_sent_still_counts():
    queue = queue_of(requests_per_minute=1)
    enter(queue)
    waiters = [enter(queue) for _ in range(3)]

    queue.follow(Quota(requests_per_minute=3))

    assert len(served(waiters)) == 2
    queue.follow(Quota())
    assert len(served(waiters)) == 3


async def test_one_that_has_just_had_its_turn_may_still_be_looked_at(queue):
    first, second = enter(queue), enter(queue, B)

    first.permit.settle((), 0.0)

    assert second.permit is not None
    assert queue.look(second, seconds_passed()).position == 1


class Counting(TargetQueue):
    """Counts how often it was put in order, which takes the longer the more wait."""

    times = 0

    def _line_up(self, asks):
        self.times += 1
        return super()._line_up(asks)


async def crowd(**quota):
    queue = Counting("spark", Quota(**quota), seconds_passed)
    waiters = [enter(queue, SessionKey(LOCAL, f"{number}")) for number in range(300)]
    queue.times = 0
    return queue, waiters


async def test_a_crowd_that_looks_at_the_queue_looks_at_it_together():
    queue, waiters = await crowd(in_flight=1)

    positions = [queue.look(waiter, 1.0).position for waiter in waiters[1:]]

    assert positions == list(range(1, 300))
    assert queue.times == 1


async def test_a_crowd_that_leaves_at_once_holds_up_nobody():
    queue, waiters = await crowd(requests_per_minute=250, in_flight=20)

    for waiter in waiters[20:290]:
        queue.leave(waiter)
    assert queue.times == 0

    waiters[0].permit.release(seconds_passed())
    await waiters[290].let_in
    assert queue.length == 9


async def test_a_queue_is_logged_when_it_forms_and_not_for_each_request(monkeypatch):
    told = []
    monkeypatch.setattr("router.telemetry.events.queue_formed", lambda **what: told.append(what))
    queue = queue_of(requests_per_minute=1)
    enter(queue)
    waiters = [enter(queue) for _ in range(3)]
    for waiter in waiters:
        queue.leave(waiter)
    enter(queue)

    assert told == [{"target": "spark", "seconds": WINDOW_SECONDS}]


async def test_its_picture_has_every_meter_and_who_waits():
    queue = queue_of(requests_per_minute=1)
    enter(queue)
    enter(queue)

    assert queue.picture(seconds_passed()) == {
        "requests_per_minute": {"used": 1, "limit": 1},
        "tokens_per_minute": {"used": 500, "limit": None},
        "in_flight": {"used": 1, "limit": None},
        "waiting": 1,
    }


STEP = some.one_of(
    some.tuples(some.just("enter"), some.sampled_from([A, B, C, SessionKey(A.caller, "other")]), some.integers(1, 700)),
    some.tuples(some.just("end"), some.integers(0, 9), some.just(0)),
    some.tuples(some.just("leave"), some.integers(0, 9), some.just(0)),
    some.tuples(some.just("sleep"), some.floats(0.1, 30), some.just(0)),
)


@settings(deadline=None)
@given(
    steps=some.lists(STEP, max_size=50),
    requests=some.integers(1, 5) | some.none(),
    tokens=some.integers(500, 3_000) | some.none(),
    at_once=some.integers(1, 3) | some.none(),
)
def test_whatever_happens_limits_hold_everybody_has_its_turn_and_nothing_is_left_behind(steps, requests, tokens, at_once):
    async def play():
        queue = TargetQueue("spark", Quota(requests, tokens, at_once), seconds_passed)
        sent, waiting, under_way = [], [], []

        def look():
            for waiter in [waiter for waiter in waiting if waiter.permit is not None]:
                waiting.remove(waiter)
                under_way.append(waiter.permit)
                sent.append((seconds_passed(), waiter.tokens))
            now = seconds_passed()
            minute = [size for at, size in sent if now - 60 < at <= now]
            assert requests is None or len(minute) <= requests
            assert tokens is None or len(minute) < 2 or sum(minute) <= tokens
            assert at_once is None or len(under_way) <= at_once
            assert queue.length == len(waiting)

        async def rest(seconds):
            until = seconds_passed() + seconds
            while seconds_passed() < until:
                await asyncio.sleep(min(0.5, until - seconds_passed()))
                look()

        for what, first, second in steps:
            if what == "enter":
                waiting.append(queue.hold(first, second))
            elif what == "end" and first < len(under_way):
                under_way.pop(first).settle([ended()], seconds_passed())
            elif what == "leave" and first < len(waiting):
                queue.leave(waiting.pop(first))
            elif what == "sleep":
                await rest(first)
            look()
        for _ in range(2 * len(steps) + 2):  # nobody waits for ever
            if not waiting and not under_way:
                break
            while under_way:
                under_way.pop().settle([ended()], seconds_passed())
            look()
            await rest(WINDOW_SECONDS)
        assert (waiting, queue.length, queue.meter.in_flight) == ([], 0, 0)
        await rest(2 * WINDOW_SECONDS)
        queue.expect(A, 1, seconds_passed())
        assert (queue.meter.requests, queue.meter.tokens, queue.is_idle) == (0, 0, True)
        assert queue._timer is None

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(play())


def enter_aside(queue, who=A):
    return queue.hold(who, 100, is_side_request=True)


async def test_a_side_request_leaves_the_last_slot_free_for_a_moment(queue):
    aside = enter_aside(queue)
    assert aside.permit is None

    await aside.let_in

    assert seconds_passed() == pytest.approx(0.3)


async def test_a_turn_does_not_wait_for_a_side_request_of_its_session(queue):
    aside = enter_aside(queue)
    assert queue.expect(A, 100, 0.0).seconds == 0.0

    turn = enter(queue)

    assert (turn.permit is not None, aside.permit) == (True, None)
    await asyncio.sleep(5.0)
    turn.permit.settle((), seconds_passed())
    await aside.let_in
    assert seconds_passed() == pytest.approx(5.0)


async def test_a_turn_that_waits_goes_before_a_side_request_that_has_waited_longer(queue):
    other = enter(queue, B)
    aside = enter_aside(queue)
    await asyncio.sleep(60.0)
    turn = enter(queue)
    other.permit.settle((), seconds_passed())

    assert (turn.permit is not None, aside.permit) == (True, None)


async def test_a_side_request_waits_for_no_other_session_and_not_where_more_slots_are_free():
    one, several = queue_of(in_flight=1), queue_of(in_flight=2)
    assert enter_aside(several).permit is not None
    aside = enter_aside(one)
    await asyncio.sleep(0.31)

    assert aside.permit is not None
    assert enter(one, B).permit is None


def test_a_side_request_that_waits_for_a_moment_is_not_reported_as_a_queue(monkeypatch):
    told = []
    monkeypatch.setattr("router.telemetry.events.queue_formed", lambda **what: told.append(what))

    @jumping_clock
    async def run():
        await enter_aside(queue_of(in_flight=1)).let_in

    run()
    assert told == []


def enter_job(queue, who=C):
    return queue.hold(who, 100, is_background=True)


async def test_background_work_leaves_half_of_the_slots_free():
    queue = queue_of(in_flight=4)

    jobs = [enter_job(queue) for _ in range(3)]
    turns = [enter(queue, who) for who in (A, B)]

    assert [job.permit is not None for job in jobs] == [True, True, False]
    assert served(turns) == ["a", "b"]


async def test_background_work_goes_after_everybody_who_waits_and_holds_up_nobody(queue):
    running = enter(queue)
    job, turn = enter_job(queue), enter(queue, B)

    running.permit.settle((), seconds_passed())
    before = (served([turn]), job.permit)
    turn.permit.settle((), seconds_passed())

    assert before == (["b"], None)
    assert job.permit is not None


async def test_no_more_is_let_in_than_this_routers_part_of_a_quota():
    queue = TargetQueue("spark", Quota(requests_per_minute=600), seconds_passed, Pool(3))
    waiters = [enter(queue) for _ in range(5)]
    for waiter in waiters[:3]:
        await waiter

    assert [waiter.permit is not None for waiter in waiters] == [True] * 3 + [False] * 2
    await waiters[3]
    assert seconds_passed() == pytest.approx(WINDOW_SECONDS, abs=0.01)


async def test_a_queue_is_not_idle_while_a_call_takes_longer_than_a_minute(queue):
    permit = enter(queue).permit
    await asyncio.sleep(2 * WINDOW_SECONDS)

    assert not queue.is_idle
    permit.release(seconds_passed())
    assert queue.is_idle
