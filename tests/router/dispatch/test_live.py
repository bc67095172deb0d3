from router.contract.target import WorkRatio
from router.contract.words import Tier
from router.dispatch.live import LiveStatistics
from tests.tools.values import make_target

SPARK = make_target()


def make_live() -> LiveStatistics:
    return LiveStatistics([SPARK, make_target("sage", Tier.DEEP)])


def test_before_any_sample_a_target_is_as_typical():
    standing = make_live().statuses(0.0)["spark"]

    assert standing.speed == SPARK.typical
    assert (standing.wait_seconds, standing.in_flight) == (0.0, 0)


def test_recent_samples_count_and_fade_with_a_half_life_of_ten_seconds():
    live = make_live()
    live.answered("spark", live.began("spark", 0.0, is_streaming=True), 2.2, 100, 2.2)

    assert live.statuses(2.2)["spark"].speed.ttft_seconds == 2.2
    assert round(live.statuses(12.2)["spark"].speed.ttft_seconds, 3) == 1.2
    assert live.statuses(500.0)["spark"].speed.ttft_seconds < 0.21


def test_a_request_without_its_first_token_shows_the_queue_before_any_sample():
    live = make_live()
    number = live.began("spark", 0.0, is_streaming=True)

    assert round(live.statuses(5.0)["spark"].wait_seconds, 2) == 4.8
    live.ended("spark", number, 5.0, None)
    assert live.statuses(5.01)["spark"].wait_seconds == 0.0


def test_an_answer_that_comes_whole_shows_no_queue():
    live = make_live()
    live.began("spark", 0.0, is_streaming=False)

    standing = live.statuses(60.0)["spark"]
    assert (standing.wait_seconds, standing.in_flight) == (0.0, 1)


def test_a_long_prompt_tells_how_fast_the_target_reads():
    live = make_live()
    live.answered("spark", live.began("spark", 0.0, is_streaming=True), 2.2, 40_000, 2.2)

    speed = live.statuses(2.2)["spark"].speed
    assert speed.ttft_seconds == SPARK.typical.ttft_seconds
    assert round(speed.prefill_tokens_per_second) == 20_000


def test_a_target_that_asked_for_time_is_waited_for():
    live = make_live()
    live.asked_to_wait("spark", 30, 100.0)

    assert live.statuses(110.0)["spark"].wait_seconds == 20
    assert live.statuses(140.0)["spark"].wait_seconds == 0


def test_speed_is_the_median_of_what_was_seen():
    live = make_live()
    for speed in (900, 100, 950):
        live.ended("spark", live.began("spark", 0.0, is_streaming=True), 1.0, speed)

    assert live.statuses(1.0)["spark"].speed.tokens_per_second == 900


def test_until_something_is_learnt_every_target_works_as_expected():
    statuses = make_live().statuses(0.0)

    assert [standing.ratio for standing in statuses.values()] == [WorkRatio(1.0, 1.0)] * 2


def test_what_is_learnt_of_a_target_shows_in_its_standing_alone():
    live = make_live()

    live.learn({"spark": WorkRatio(1.4, 0.8), "nobody": WorkRatio(3.0, 3.0)})

    statuses = live.statuses(0.0)
    assert statuses["spark"].ratio == WorkRatio(1.4, 0.8)
    assert statuses["sage"].ratio == WorkRatio()
    assert set(statuses) == {"spark", "sage"}


def test_a_target_of_which_nothing_is_known_any_more_works_as_expected_again():
    live = make_live()
    live.learn({"spark": WorkRatio(1.4, 0.8)})

    live.learn({"sage": WorkRatio(2.0, 2.0)})

    statuses = live.statuses(0.0)
    assert statuses["spark"].ratio == WorkRatio()
    assert statuses["sage"].ratio == WorkRatio(2.0, 2.0)
