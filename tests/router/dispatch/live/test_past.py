"""What the calls of the past say of a target's pace."""

import pytest

from router.contract.entry import Attempt, Pace, PastCall
from router.contract.usage import Usage
from router.dispatch.live.past import prefill_speed, sum_up

TOLD = Usage(100, 50)
COUNTED = Usage(100, 50, is_estimated=True)


def call(at=0.0, speed=None, *, ttft=None, prefill=None, usage=TOLD, target="spark", model="m"):
    pace = Pace(model, ttft, speed, prefill)
    return PastCall(at, Attempt(target, 200, None, 1.0, usage, pace=pace), pace)


def test_a_target_is_known_by_its_name_and_its_model():
    found = sum_up([call(speed=100), call(speed=200, model="other"), call(speed=300, target="sage")])

    assert {key: past.speed for key, past in found.items()} == {
        ("spark", "m"): (100,),
        ("spark", "other"): (200,),
        ("sage", "m"): (300,),
    }


def test_each_minute_counts_once_with_its_median_and_the_newest_thirty_are_kept():
    calls = [call(minute * 60.0 + second, speed=minute + second) for minute in range(40) for second in (1, 2, 9)]

    (past,) = sum_up(calls).values()

    assert past.speed == tuple(minute + 2 for minute in range(10, 40))
    assert past.at == 39 * 60 + 9


def test_what_was_only_counted_counts_where_nothing_was_told():
    (mixed,) = sum_up([call(0, 40, usage=COUNTED), call(60, 640), call(120, 40, usage=COUNTED)]).values()
    (counted,) = sum_up([call(0, 40, usage=COUNTED)]).values()

    assert (mixed.speed, mixed.is_counted) == ((640,), False)
    assert (counted.speed, counted.is_counted) == ((40,), True)


def test_a_short_prompt_tells_how_soon_it_starts_and_a_long_one_how_fast_it_reads():
    long = call(120, ttft=2.2, usage=Usage(50_000, 10, cached_tokens=10_000))

    (past,) = sum_up([call(0, ttft=0.2), call(60, ttft=0.2), long]).values()

    assert (past.ttft, past.prefill) == ((0.2, 0.2), (20_000,))


def test_a_prompt_that_was_kept_from_before_is_a_short_one():
    (past,) = sum_up([call(ttft=0.4, usage=Usage(50_000, 10, cached_tokens=49_000))]).values()

    assert (past.ttft, past.prefill) == ((0.4,), ())


def test_what_the_engine_says_of_its_reading_counts():
    (past,) = sum_up([call(prefill=430.0, ttft=5.0)]).values()

    assert past.prefill == (430.0,)


@pytest.mark.parametrize(("tokens", "seconds", "speed"), [(7_999, 2.0, None), (8_000, 1.0, 10_000), (8_000, 0.1, 8_000_000)])
def test_how_fast_a_prompt_was_read(tokens, seconds, speed):
    assert prefill_speed(tokens, seconds, 0.2) == (None if speed is None else pytest.approx(speed))
