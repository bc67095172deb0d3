import asyncio

import pytest
from msgspec.structs import replace

from router.contract.caller import LOCAL, SessionKey
from router.contract.target import Quota
from router.contract.words import Tier
from router.limits.queue import TargetQueue
from router.limits.queues import Queues
from router.limits.quota import WINDOW_SECONDS
from tests.tools.loop_clock import seconds_passed
from tests.tools.values import ask, make_signals, make_target, stand

pytestmark = pytest.mark.jumping_clock

SPARK = make_target(quota=Quota(requests_per_minute=1, max_wait_seconds=30.0))
SAGE = make_target("sage", Tier.DEEP)
TARGETS = {"spark": SPARK, "sage": SAGE}
VIEW = ask()


def signals_of(spark=SPARK, wait=0.0):
    return make_signals(stand(spark, wait), stand(SAGE))


def take(queues, target=SPARK, view=VIEW):
    return queues.queue_of(target, view).hold(SessionKey(LOCAL, "s"), 100)


@pytest.fixture
def queues():
    return Queues(seconds_passed)


def test_nothing_is_asked_where_no_target_has_a_quota(queues):
    queues.follow({"sage": SAGE})

    assert not queues.is_on
    assert queues.picture({"sage": SAGE}, 0.0) == {}


async def test_a_target_with_room_is_as_it_was_and_one_without_has_a_wait_in_words(queues):
    queues.follow(TARGETS)
    assert queues.apply(signals_of(), VIEW, 0.0) == signals_of()

    take(queues)
    spark = queues.apply(signals_of(), VIEW, 50.0).statuses["spark"]

    assert queues.is_on
    assert spark.wait_seconds == WINDOW_SECONDS - 50
    assert spark.wait_because == "spark is at its quota of 1 request a minute for another 11 s"
    assert (spark.closed_seconds, spark.is_over_max_wait) == (0.0, False)


async def test_one_with_a_longer_wait_than_a_request_may_have_is_closed_for_now(queues):
    take(queues)

    spark = queues.apply(signals_of(), VIEW, 0.0).statuses["spark"]

    assert (spark.closed_seconds, spark.is_over_max_wait) == (WINDOW_SECONDS - 30.0, True)


async def test_a_longer_wait_of_the_target_itself_counts_and_so_does_one_that_asked_to_be_left_alone(queues):
    take(queues)
    resting, alone = signals_of(wait=90.0), make_signals(replace(stand(SPARK), closed_seconds=5.0), stand(SAGE))

    assert queues.apply(resting, VIEW, 0.0) == resting
    assert queues.apply(alone, VIEW, 0.0) == alone


async def test_callers_with_keys_of_their_own_have_a_quota_each():
    theirs = make_target(quota=SPARK.quota, takes_callers_key=True)
    one, other = (ask(headers={"authorization": f"Bearer {key}"}) for key in ("sk-one", "sk-other"))
    queues = Queues(seconds_passed)

    take(queues, theirs, one)

    assert take(queues, theirs, other).permit is not None
    assert take(queues, theirs, one).permit is None
    assert list(queues.picture({"spark": theirs}, 0.0)) == ["spark (key 1)", "spark (key 2)"]


async def test_queues_of_keys_that_nobody_uses_are_forgotten(monkeypatch):
    monkeypatch.setattr("router.limits.queues._MAX_QUEUES", 2)
    theirs = make_target(quota=SPARK.quota, takes_callers_key=True)
    queues = Queues(seconds_passed)
    used = take(queues, theirs, ask(headers={"authorization": "Bearer sk-used"}))
    for number in range(5):
        queues.queue_of(theirs, ask(headers={"authorization": f"Bearer sk-{number}"}))

    assert used.permit is not None
    assert len(queues.picture({"spark": theirs}, 0.0)) <= 3


async def test_queues_of_keys_that_were_used_long_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr("router.limits.queues._MAX_QUEUES", 2)
    theirs = make_target(quota=SPARK.quota, takes_callers_key=True)
    queues = Queues(seconds_passed)
    for number in range(5):
        waiter = take(queues, theirs, ask(headers={"authorization": f"Bearer sk-{number}"}))
        waiter.permit.settle((), seconds_passed())
        await asyncio.sleep(WINDOW_SECONDS)

    assert len(queues.picture({"spark": theirs}, seconds_passed())) <= 2


async def test_another_plan_changes_the_quota_and_not_what_was_sent(queues):
    take(queues)
    waiter = take(queues)

    queues.follow({"spark": make_target(quota=Quota(requests_per_minute=2)), "sage": SAGE})

    assert waiter.permit is not None
    assert queues.picture({"spark": SPARK}, 0.0)["spark"]["requests_per_minute"] == {"used": 2, "limit": 2}


async def test_a_plan_without_the_quota_lets_everybody_in(queues):
    take(queues)
    waiter = take(queues)

    queues.follow({"sage": SAGE})

    assert waiter.permit is not None


def test_a_quota_that_nobody_has_used_is_shown_as_well():
    picture = Queues(seconds_passed).picture(TARGETS, 0.0)

    assert picture == {"spark": TargetQueue("spark", SPARK.quota, seconds_passed).picture(0.0)}
    assert picture["spark"]["requests_per_minute"] == {"used": 0, "limit": 1}


async def test_who_looks_on_sees_the_wait_in_a_queue_of_ours():
    queues, target = Queues(seconds_passed), make_target(quota=Quota(in_flight=1))
    assert queues.show(stand(target), 0.0).wait_seconds == 0.0
    queue = queues.queue_of(target, ask())
    for _ in range(3):
        queue.hold(SessionKey(LOCAL, "a"), 100)

    assert queues.waiting_for("spark") == 2
    assert queues.show(stand(target), 1.0).wait_seconds == pytest.approx(14.0)


async def test_what_is_left_of_a_quota_is_said_by_limit_and_never_of_what_callers_bring_themselves(queues):
    limited = make_target(quota=Quota(requests_per_minute=3, in_flight=1))
    assert queues.left_of(limited, 0.0) == {"requests_per_minute": 3, "in_flight": 1}

    take(queues, limited)

    assert queues.left_of(limited, seconds_passed()) == {"requests_per_minute": 2, "in_flight": 0}
    assert queues.left_of(limited, seconds_passed() + WINDOW_SECONDS)["requests_per_minute"] == 3
    assert queues.left_of(SAGE, 0.0) == {}
    assert queues.left_of(make_target(quota=limited.quota, takes_callers_key=True), 0.0) == {}
