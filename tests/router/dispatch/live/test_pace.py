"""What calls show of a target's speed."""

import pytest

from router.contract.entry import Attempt
from router.contract.entry import Pace as SeenPace
from router.contract.facts import AttemptEnded
from router.contract.usage import Usage
from router.dispatch.live.pace import Pace
from router.dispatch.live.past import PastPace
from tests.tools.values import make_target

SPARK = make_target()


def ended(usage: Usage | None = None, **seen: float) -> AttemptEnded:
    attempt = Attempt("spark", 200, None, 1.0, pace=SeenPace("model", **seen))
    return AttemptEnded(10.0, SPARK, attempt, None, usage, None)


def test_how_long_a_prompt_usually_waits_depends_on_its_length_only_if_that_is_long():
    pace = Pace(SPARK.typical)

    assert pace.usual_seconds(7_999) == 0.2
    assert pace.usual_seconds(60_000) == 1.2


def test_before_anything_was_seen_the_config_tells_and_then_the_calls_do():
    pace = Pace(SPARK.typical)
    assert (pace.current(0.0), pace.seen_at) == (SPARK.typical, float("-inf"))

    pace.begin("0", 100, 0.7, 5.0)

    assert (pace.current(5.0).ttft_seconds, pace.seen_at) == (0.7, 5.0)
    assert pace.sources == {"ttft_seconds": "learned", "tokens_per_second": "config", "prefill_tokens_per_second": "config"}


def test_a_long_prompt_shows_how_fast_it_was_read_once_its_end_says_how_much_was_new():
    pace = Pace(SPARK.typical)
    pace.begin("0", 60_000, 2.2, 5.0)
    assert pace.current(5.0) == SPARK.typical

    pace.end("0", ended(Usage(60_000, 9, cached_tokens=20_000), tokens_per_second=50.0))

    assert pace.current(10.0) == pytest.approx((0.2, 50.0, 20_000.0))
    assert pace.reading == {}


def test_counted_pieces_count_until_the_target_says_how_many_tokens_there_were():
    pace = Pace(SPARK.typical)
    speeds = []
    for value, is_counted in ((40.0, True), (640.0, False), (40.0, True)):
        pace.add_speed(value, 1.0, is_counted=is_counted)
        speeds.append((pace.current(1.0).tokens_per_second, pace.sources["tokens_per_second"]))

    assert speeds == [(40.0, "estimated"), (640.0, "learned"), (640.0, "learned")]


def test_calls_of_the_past_that_waited_in_a_queue_are_no_measure():
    pace = Pace(SPARK.typical)
    pace.recall(PastPace(ttft=(0.3, 9.0), speed=(80.0,)), 0.0)
    pace.settle(0.0)

    assert pace.has_recalled
    assert pace.current(0.0)[:2] == (0.3, 80.0)
