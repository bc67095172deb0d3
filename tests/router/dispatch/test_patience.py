"""A stream that waits in a target's queue, and when its request moves on."""

import asyncio

import pytest

from policies.override import OverridePolicy
from router.contract.target import Quota
from router.contract.words import Tier
from tests.tools.houses import Walk, make_house
from tests.tools.loop_clock import jumping_clock, seconds_passed
from tests.tools.scripted import hangs, reach, streams
from tests.tools.values import make_target

pytestmark = pytest.mark.jumping_clock


def late(seconds, *pieces):
    """A stream that begins after a while."""

    def play(sink):
        asyncio.get_running_loop().call_later(seconds, streams(*pieces), sink)

    return play


def targets(fast=None, deep=None, *, max_wait=2.0, **more):
    spark = reach(make_target(quota=Quota(max_wait_seconds=max_wait), **more), fast or late(8.0))
    return spark, reach(make_target("sage", Tier.DEEP), deep or streams())


async def walk(*reachable, headers=None, **more):
    house = make_house(*reachable, base_rate=0.01, policies=(OverridePolicy(OverridePolicy.Config()),))
    walked = Walk(house, stream=True, headers=headers or {}, **more)
    await walked.task
    return walked


def outcome(walked):
    return walked.headers["x-tandem-target"], round(seconds_passed(), 1)


async def test_a_call_that_has_not_begun_within_the_longest_wait_is_closed_and_another_target_serves():
    spark, sage = targets()
    walked = await walk(spark, sage)

    assert outcome(walked) == ("sage", 2.0)
    assert walked.headers["x-tandem-tier"] == "deep"
    assert walked.headers["x-tandem-because"].startswith("spark had not begun after 2.0 s, so sage answers: ")
    assert spark.adapter.calls[0].is_cancelled


async def test_a_queue_that_was_left_is_passed_over_while_it_lasts_and_used_again_when_it_ends():
    spark, sage = targets(lambda sink: late(20.0 if len(spark.adapter.calls) == 1 else 0.1)(sink))
    house = make_house(spark, sage, base_rate=0.01)
    served = []
    for name, pause in (("left", 0.0), ("passed over", 4.0), ("again", 0.0)):
        walked = Walk(house, name=name, stream=True)
        await walked.task
        served.append((walked.headers["x-tandem-target"], walked.headers["x-tandem-because"]))
        await asyncio.sleep(pause)

    assert [target for target, _ in served] == ["sage", "sage", "spark"]
    assert "fast is out for now (spark would keep you waiting" in served[1][1]
    assert "longer than its max_wait_seconds of 2" in served[1][1]


async def test_a_call_that_begins_in_time_stays():
    assert outcome(await walk(*targets(late(1.9)))) == ("spark", 1.9)


async def test_without_a_longest_wait_it_is_waited_for():
    assert outcome(await walk(*targets(max_wait=None))) == ("spark", 8.0)


async def test_who_asked_for_fast_waits_for_it():
    assert outcome(await walk(*targets(), headers={"x-tandem-tier": "fast"})) == ("spark", 8.0)


async def test_the_callers_own_longest_wait_counts_before_that_of_the_config():
    assert outcome(await walk(*targets(), headers={"x-tandem-max-wait": "1"})) == ("sage", 1.0)


async def test_a_target_that_usually_takes_longer_is_given_twice_its_time():
    slow = make_target().typical._replace(ttft_seconds=3.0)

    assert outcome(await walk(*targets(late(5.0), typical=slow))) == ("spark", 5.0)


async def test_an_answer_in_one_piece_is_waited_for():
    spark, sage = targets(late(8.0))
    walked = Walk(make_house(spark, sage, base_rate=0.01))
    await asyncio.sleep(7.0)

    assert not walked.task.done()
    walked.task.cancel()
    await asyncio.wait((walked.task,))


async def test_it_stays_where_it_is_while_nobody_would_begin_sooner():
    spark, sage = targets(late(8.0), hangs)
    house = make_house(spark, sage, base_rate=0.01)
    stuck = Walk(house, name="req_0", stream=True)  # moves to sage after 2 s, and hangs there
    await asyncio.sleep(20.0)
    walked = Walk(house, stream=True)
    await walked.task

    assert outcome(walked) == ("spark", 28.0)
    stuck.task.cancel()
    await asyncio.wait((stuck.task,))


async def test_it_stays_where_it_is_once_the_others_quota_has_no_room():
    spark = reach(make_target(quota=Quota(max_wait_seconds=2.0)), late(8.0))
    sage = reach(make_target("sage", Tier.DEEP, quota=Quota(requests_per_minute=1, max_wait_seconds=5.0)), streams())
    house = make_house(spark, sage, base_rate=0.01, policies=(OverridePolicy(OverridePolicy.Config()),))
    walked = Walk(house, stream=True)
    await asyncio.sleep(1.0)
    await Walk(house, name="req_2", headers={"x-tandem-tier": "deep"}).task
    await walked.task

    assert outcome(walked) == ("spark", 8.0)


@pytest.mark.parametrize(("headers", "served_by"), [({}, "sage"), ({"x-tandem-max-wait": "2"}, "spark")])
def test_what_waits_at_deep_goes_to_fast_only_where_its_caller_said_how_long_it_may_wait(headers, served_by):
    @jumping_clock
    async def run():
        spark = reach(make_target(), streams())
        sage = reach(make_target("sage", Tier.DEEP, quota=Quota(max_wait_seconds=2.0)), late(8.0))
        house = make_house(spark, sage, base_rate=0.99)
        walked = Walk(house, stream=True, headers=headers)
        await walked.task
        assert walked.headers["x-tandem-target"] == served_by

    run()


async def test_a_move_is_no_failure_of_the_target():
    spark, sage = targets()
    house = make_house(spark, sage, base_rate=0.01)
    for number in range(8):
        walked = Walk(house, name=f"req_{number}", stream=True)
        await walked.task
        await asyncio.sleep(20.0)

    assert len(spark.adapter.opened) == 8
    assert not house.state.live.statuses(house.plan.targets, seconds_passed())["spark"].is_resting


async def test_where_deep_fails_too_the_caller_is_told_of_both():
    spark, sage = targets(deep=lambda sink: (sink.start(500, ()), sink.end()))
    walked = await walk(spark, sage)

    assert walked.sink.status == 502
    assert b"spark (upstream_queued), sage (500)" in walked.sink.body
