"""The meter of a quota that routers share, and a queue that counts by it."""

import pytest

from router.contract.allowance import Use
from router.contract.caller import LOCAL, SessionKey
from router.contract.target import Quota
from router.limits.queue import TargetQueue
from router.limits.quota import WINDOW_SECONDS
from router.limits.shared_quota import SharedMeter, share_quotas
from tests.tools.allowances import Pool
from tests.tools.loop_clock import seconds_passed

pytestmark = pytest.mark.jumping_clock

A = SessionKey(LOCAL, "a")
REQUESTS, TOKENS, SLOTS = ("target", "spark", "requests_per_minute"), ("target", "spark", "tokens_per_minute"), "in_flight"


def queue_of(pool, **quota):
    return TargetQueue("spark", Quota(**quota), share_quotas(pool, "spark", ""))


def enter(queue, tokens=100):
    return queue.enter(A, tokens, seconds_passed)


def meter_of(pool, **quota):
    return SharedMeter(Quota(**quota), pool, ("target", "spark"), seconds_passed, lambda: None)


async def test_who_comes_waits_for_an_answer_and_the_next_finds_what_came_with_it():
    queue = queue_of(Pool(10), requests_per_minute=10)

    first = enter(queue)
    assert first.permit is None
    await first.let_in

    assert enter(queue).permit is not None
    assert seconds_passed() == 0.0


async def test_no_more_is_let_in_than_this_router_has():
    queue = queue_of(Pool(3), requests_per_minute=600)
    waiters = [enter(queue) for _ in range(5)]
    for waiter in waiters[:3]:
        await waiter.let_in

    assert [waiter.permit is not None for waiter in waiters] == [True] * 3 + [False] * 2
    await waiters[3].let_in
    assert seconds_passed() == pytest.approx(WINDOW_SECONDS, abs=0.01)


async def test_tokens_are_asked_for_as_many_as_a_call_needs():
    pool = Pool(10_000)
    queue = queue_of(pool, tokens_per_minute=10_000)

    waiter = enter(queue, 2_000)
    await waiter.let_in

    assert pool.parts[TOKENS].allowed == 2_000 + 400 + 1  # the prompt, an answer as long as they usually are, and a slice
    assert pool.parts[TOKENS].use() == Use(2_400, WINDOW_SECONDS)


async def test_a_call_that_no_minute_could_hold_has_the_whole_minute():
    pool = Pool(1_000)
    queue = queue_of(pool, tokens_per_minute=1_000)

    await enter(queue, 5_000).let_in

    assert pool.parts[TOKENS].allowed == 1_000


async def test_a_slot_is_used_until_its_call_is_over_and_is_asked_for_one_at_a_time():
    pool = Pool(5)
    queue = queue_of(pool, in_flight=5)
    waiter = enter(queue)
    await waiter.let_in
    part = pool.parts["target", "spark", SLOTS]

    assert part.use() == Use(1)
    waiter.permit.end(1.0, None)

    assert (part.use(), part.allowed) == (Use(0), 1)


async def test_what_is_a_minute_old_is_no_longer_in_use_also_before_anybody_looks():
    pool = Pool(5)
    meter = meter_of(pool, requests_per_minute=5)
    meter.take(0, -WINDOW_SECONDS)
    meter.take(0, -WINDOW_SECONDS + 10)

    assert pool.parts[REQUESTS].use() == Use(1, 10)


async def test_while_nobody_can_be_asked_this_routers_part_is_all_there_is():
    pool = Pool(600)
    queue = queue_of(pool, requests_per_minute=600)
    await enter(queue).let_in
    pool.is_blind = True
    own = pool.parts[REQUESTS].allowed

    waiters = [enter(queue) for _ in range(10)]

    assert sum(waiter.permit is not None for waiter in waiters) == own - 1
    assert queue.meter.is_blind


async def test_where_nothing_is_left_a_wait_is_as_long_as_the_next_router_needs_to_give_something():
    pool = Pool(0)
    meter = meter_of(pool, requests_per_minute=600)
    assert meter.wait(0, 0.0).seconds == WINDOW_SECONDS
    pool.parts[REQUESTS].opens_in_seconds = 7.0

    assert meter.wait(0, 0.0) == (7.0, "quota of 600 requests a minute")
    assert meter.free_part() == 0.0


async def test_while_the_store_is_away_it_is_worth_waiting_for_a_moment_where_nothing_of_the_own_part_comes_back_sooner():
    pool = Pool(0)
    meter = meter_of(pool, requests_per_minute=600)
    pool.is_blind = True

    assert meter.wait(0, 0.0).seconds == 2.0


async def test_a_wait_of_unknown_length_names_the_quota_and_not_a_rate_limit_of_the_provider():
    meter = meter_of(Pool(600), requests_per_minute=600)

    assert meter.wait(0, 0.0) == (0.0, "quota of 600 requests a minute")


async def test_a_limit_that_is_gone_is_given_back_and_a_new_one_is_asked_for():
    pool = Pool(5)
    meter = meter_of(pool, requests_per_minute=5, in_flight=2)

    meter.quota = Quota(requests_per_minute=8, tokens_per_minute=100)

    assert pool.parts[REQUESTS].limit == 8
    assert pool.parts["target", "spark", SLOTS].is_closed
    assert TOKENS in pool.parts
