import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.allowance import Use
from router.contract.target import Quota
from router.limits.quota import WINDOW_SECONDS, Grant, Meter, seconds_left, wait_for_slot
from tests.tools.allowances import Pool

MINUTE = 60.0


def take(meter, tokens, at):
    meter.take(grant := Grant(at, tokens))
    return grant


def full_meter(**quota):
    """One whose requests of a minute were taken a second apart."""
    meter = Meter(Quota(**quota))
    for second in range(quota["requests_per_minute"]):
        take(meter, 10, float(second))
    return meter


def test_a_call_is_expected_to_take_as_long_as_others_and_one_that_is_older_longer_still():
    assert [seconds_left(age, 6.0) for age in (0.0, 2.0, 6.0, 20.0)] == [6.0, 4.0, 3.0, 10.0]


@pytest.mark.parametrize(
    ("left", "waiting", "count", "wait"),
    [
        ([], 0, 1, 0.0),
        ([], 1, 1, 5.0),
        ([3.0], 0, 1, 3.0),
        ([3.0], 4, 1, 23.0),
        ([3.0], 0, 2, 0.0),
        ([3.0], 1, 2, 3.0),
        ([4.0, 1.0], 0, 2, 1.0),
        ([4.0, 1.0], 1, 2, 4.0),
        ([4.0, 1.0], 2, 2, 6.0),
        ([4.0, 1.0, 2.0], 0, 2, 2.0),
    ],
)
def test_the_wait_is_until_those_before_have_had_their_slots(left, waiting, count, wait):
    assert wait_for_slot(left, waiting, count, 5.0) == wait


def test_a_burst_passes_at_once_and_what_is_more_waits_until_the_first_is_a_minute_old():
    meter = Meter(Quota(requests_per_minute=3))
    for _ in range(3):
        assert meter.has_room(1, 5.0)
        take(meter, 1, 5.0)

    assert not meter.has_room(1, 5.0)
    assert meter.wait(1, 10.0).seconds == WINDOW_SECONDS - 5
    meter.expire(5.0 + WINDOW_SECONDS)
    assert meter.has_room(1, 5.0 + WINDOW_SECONDS)


def test_who_is_further_back_waits_for_a_later_one_and_beyond_the_quota_for_another_minute():
    meter = full_meter(requests_per_minute=10)

    waits = [meter.wait(1, 20.0, ahead).seconds for ahead in (0, 1, 9, 10, 11)]

    assert waits == [41.0, 42.0, 50.0, 41.0 + WINDOW_SECONDS, 42.0 + WINDOW_SECONDS]
    assert meter.wait(1, 20.0).limit == "quota of 10 requests a minute"


def test_tokens_are_charged_as_expected_and_set_right_when_they_are_known():
    meter = Meter(Quota(tokens_per_minute=1_000))
    grant = take(meter, meter.expect_tokens(100), 0.0)
    assert (meter.tokens, meter.has_room(600, 1.0)) == (500, False)

    meter.end(grant, 1.0, prompt_tokens=100, output_tokens=20)

    assert (meter.tokens, meter.has_room(600, 1.0)) == (120, True)
    assert meter.expect_tokens(100) < 500  # answers are shorter than was thought


def test_a_request_that_no_minute_could_hold_goes_when_the_minute_is_empty():
    meter = Meter(Quota(tokens_per_minute=1_000))

    assert meter.has_room(5_000, 0.0)
    take(meter, 10, 0.0)
    assert not meter.has_room(5_000, 1.0)
    assert meter.wait(5_000, 1.0).seconds >= WINDOW_SECONDS - 1
    meter.expire(WINDOW_SECONDS)
    assert meter.has_room(5_000, WINDOW_SECONDS)


def test_the_wait_for_tokens_ends_when_enough_of_them_are_a_minute_old():
    meter = Meter(Quota(tokens_per_minute=1_000))
    take(meter, 500, 0.0)
    take(meter, 400, 10.0)

    assert meter.wait(100, 20.0).seconds == 0
    assert meter.wait(300, 20.0).seconds == WINDOW_SECONDS - 20
    assert meter.wait(700, 20.0).seconds == WINDOW_SECONDS - 10
    assert meter.wait(300, 20.0, 1, 400).seconds == WINDOW_SECONDS - 10


def test_calls_at_once_are_counted_until_each_is_over():
    meter = Meter(Quota(in_flight=2))
    first = take(meter, 1, 0.0)
    take(meter, 1, 0.0)

    assert not meter.has_room(1, 1.0)
    assert meter.wait(1, 1.0).limit == "quota of 2 at once"
    meter.end(first, 2.0)
    assert meter.has_room(1, 2.0)


def test_what_was_never_sent_counts_for_nothing():
    meter = Meter(Quota(requests_per_minute=1, tokens_per_minute=100, in_flight=1))

    meter.take_back(take(meter, 90, 0.0))

    assert (meter.requests, meter.tokens, meter.in_flight) == (0, 0, 0)
    assert meter.has_room(90, 0.0)
    meter.expire(WINDOW_SECONDS)
    assert (meter.requests, meter.tokens) == (0, 0)


def test_a_call_that_ends_after_its_minute_changes_nothing_of_the_next():
    meter = Meter(Quota(tokens_per_minute=1_000))
    long = take(meter, 500, 0.0)
    meter.expire(WINDOW_SECONDS)
    take(meter, 200, 70.0)

    meter.end(long, 80.0, 100, 5_000)

    assert meter.tokens == 200


def test_a_provider_that_says_its_minute_is_full_is_believed():
    meter = Meter(Quota(requests_per_minute=60))
    meter.block(12.0)

    assert not meter.has_room(1, 5.0)
    assert (meter.wait(1, 5.0).seconds, meter.wait(1, 5.0).limit) == (7.0, "rate limit")
    assert meter.next_change(5.0) == 12.0
    assert meter.has_room(1, 12.0)


PAUSES = some.integers(0, 40 * 64).map(lambda count: count / 64)
"""Seconds whose sums are exact: a wait that is told as a difference of two times ends at the very moment."""
STEPS = some.lists(some.tuples(PAUSES, some.integers(1, 400), some.sampled_from(["keep", "end", "take back"])), max_size=80)


@given(steps=STEPS, requests=some.integers(1, 6), tokens=some.integers(100, 900), at_once=some.integers(1, 4))
def test_never_more_than_the_quota_is_sent_in_any_minute(steps, requests, tokens, at_once):
    meter = Meter(Quota(requests_per_minute=requests, tokens_per_minute=tokens, in_flight=at_once))
    now, sent, under_way = 0.0, [], []
    for pause, size, what in steps:
        now += pause
        meter.expire(now)
        if meter.has_room(size, now):
            grant = take(meter, size, now)
            if what == "take back":
                meter.take_back(grant)
                continue
            sent.append((now, size))
            under_way.append(grant)
        if what == "end" and under_way:
            meter.end(under_way.pop(0), now)

        assert meter.in_flight == len(under_way) <= at_once
        within = [each for each in sent if now - MINUTE < each[0] <= now]
        assert len(within) <= requests
        assert len(within) == 1 or sum(size for _, size in within) <= tokens


@given(steps=STEPS, requests=some.integers(1, 6), tokens=some.integers(100, 900))
def test_after_the_wait_that_it_tells_there_is_room(steps, requests, tokens):
    meter = Meter(Quota(requests_per_minute=requests, tokens_per_minute=tokens))
    now = 0.0
    for pause, size, _ in steps:
        now += pause
        meter.expire(now)
        wait = meter.wait(size, now).seconds
        assert meter.has_room(size, now) is (wait == 0)
        now += wait
        meter.expire(now)
        assert meter.has_room(size, now)
        take(meter, size, now)


def test_the_wait_for_a_slot_is_what_is_left_of_the_calls_under_way_and_of_those_ahead():
    meter = Meter(Quota(in_flight=1))
    meter.end(take(meter, 0, 0.0), 4.0)  # answers take 4 s
    take(meter, 0, 10.0)

    assert [meter.wait(0, now).seconds for now in (10.0, 12.0, 20.0)] == [4.0, 2.0, 5.0]
    assert meter.wait(0, 12.0, ahead=2).seconds == 10.0


def test_a_call_that_takes_longer_than_a_minute_still_counts_as_under_way():
    meter = Meter(Quota(in_flight=1))
    take(meter, 0, 0.0)
    meter.expire(100.0)

    assert not meter.has_room(0, 100.0)
    assert meter.wait(0, 100.0).seconds == 50.0


def test_a_call_that_is_forgotten_is_no_longer_in_the_log_and_those_before_it_are():
    meter = Meter(Quota(requests_per_minute=5))
    kept, *forgotten = [take(meter, 10, float(at)) for at in range(4)]

    for grant in forgotten:  # the first of them goes with the last: until then a call after it is counted
        meter.take_back(grant)

    assert (meter.requests, meter.tokens, meter.in_flight) == (1, 10, 1)
    meter.take_back(kept)
    meter.take_back(take(meter, 10, 9.0))
    assert meter.next_change(9.0) is None


def test_a_meter_may_have_another_minute():
    meter = Meter(Quota(requests_per_minute=1), 60.0)
    take(meter, 0, 5.0)

    assert meter.wait(0, 5.0).seconds == 60.0
    meter.expire(65.0)
    assert meter.has_room(0, 65.0)


NAME = ("target", "spark")


def shared_meter(pool, **quota):
    """The meter of a router that shares its quota."""
    return Meter(Quota(**quota), WINDOW_SECONDS, pool, NAME)


async def test_of_tokens_that_routers_share_as_many_are_asked_for_as_a_call_needs_and_a_slice_more():
    pool = Pool()
    meter = shared_meter(pool, tokens_per_minute=10_000)

    assert not meter.has_room(2_400, 0.0)
    assert await meter.reach_room(2_400)
    take(meter, 2_400, 0.0)

    part = pool.parts[*NAME, "tokens_per_minute"]
    assert (part.allowed, part.use()) == (2_401, Use(2_400, WINDOW_SECONDS))
    assert await meter.reach_room(50_000) is False  # it needs a whole minute, and waits for an empty one


async def test_a_slot_that_routers_share_is_asked_for_by_itself_and_used_until_its_call_is_over():
    pool = Pool()
    meter = shared_meter(pool, in_flight=5)
    await meter.reach_room(0)
    grant = take(meter, 0, 0.0)
    part = pool.parts[*NAME, "in_flight"]
    assert (part.allowed, part.use()) == (1, Use(1))

    meter.end(grant, 1.0)

    assert (part.allowed, part.use()) == (1, Use(0))


def test_what_is_a_minute_old_is_no_longer_in_use_also_before_anybody_looks():
    pool = Pool(5)
    meter = shared_meter(pool, requests_per_minute=5)
    pool.parts[*NAME, "requests_per_minute"].allowed = 5  # so that nobody is asked
    take(meter, 0, -WINDOW_SECONDS)
    take(meter, 0, -WINDOW_SECONDS + 10)

    assert pool.parts[*NAME, "requests_per_minute"].use() == Use(1, 10)


def test_more_is_asked_for_before_a_part_is_used_up():
    pool = Pool(5)
    meter = shared_meter(pool, requests_per_minute=100)
    part = pool.parts[*NAME, "requests_per_minute"]
    part.slice, part.allowed, pool.is_blind = 8, 3, True

    asked = [(take(meter, 0, 0.0), len(pool.asked))[1] for _ in range(3)]

    assert asked == [0, 1, 2]


def test_where_others_have_what_is_missing_a_wait_is_as_long_as_the_next_router_needs_to_give_something():
    pool = Pool(0)
    meter = shared_meter(pool, requests_per_minute=600)
    part = pool.parts[*NAME, "requests_per_minute"]
    assert (meter.wait(0, 0.0), meter.free_part()) == ((WINDOW_SECONDS, "quota of 600 requests a minute"), 0.0)

    part.opens_in_seconds = 7.0
    assert meter.wait(0, 0.0).seconds == 7.0
    assert meter.next_change(0.0) == 0.25
    part.opens_in_seconds, pool.is_blind = None, True
    assert meter.wait(0, 0.0).seconds == 2.0  # the store may be back
    assert meter.is_blind


def test_a_wait_for_a_slot_that_another_router_has_is_as_long_as_a_call():
    assert shared_meter(Pool(0), in_flight=5).wait(0, 0.0) == (5.0, "quota of 5 at once")


def test_a_limit_that_is_gone_is_given_back_and_a_new_one_is_asked_for():
    pool = Pool(5)
    meter = shared_meter(pool, requests_per_minute=5, in_flight=2)

    meter.quota = Quota(requests_per_minute=8, tokens_per_minute=100)

    assert pool.parts[*NAME, "requests_per_minute"].limit == 8
    assert pool.parts[*NAME, "in_flight"].is_closed
    assert not pool.parts[*NAME, "tokens_per_minute"].is_closed
    meter.close()
    assert pool.parts[*NAME, "tokens_per_minute"].is_closed
