from dataclasses import replace

import pytest

from router.contract.entry import Attempt
from router.contract.errors import UpstreamRefused, UpstreamUnreachable
from router.contract.facts import AttemptEnded, AttemptOpened, FirstToken, Read
from router.contract.target import WorkRatio
from router.contract.words import Tier
from router.dispatch.budget import Standing
from router.dispatch.live import RESTED_WAIT_SECONDS, LiveStatistics
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.values import make_target, make_view

SPARK, SAGE = make_target(), make_target("sage", Tier.DEEP)
TARGETS = {"spark": SPARK, "sage": SAGE}


class Call:
    """A call of spark, as the live figures observe it."""

    def __init__(self, live: LiveStatistics, *, at: float = 0.0, is_streaming: bool = True, tokens: int = 100, target=SPARK):
        view = make_view({"messages": [{"role": "user", "content": "x"}], "stream": is_streaming})
        self.target, self.exchange = target, make_exchange(live, name=f"req_{id(self)}")
        self.exchange.note(Read(view))
        self.exchange.note(make_decided(view, make_decision(prompt_tokens=tokens)))
        self.exchange.note(AttemptOpened(at, target, "", ()))

    def begin(self, at: float) -> None:
        self.exchange.note(FirstToken(at, self.target))

    def end(self, at: float, speed: float | None = None, *, error=None, is_own: bool = True) -> None:
        row = Attempt("spark", 200, None, at)
        self.exchange.note(AttemptEnded(at, self.target, row, error, None, speed, is_own))


def status(live: LiveStatistics, now: float, name: str = "spark"):
    return live.statuses(TARGETS, now)[name]


def test_before_any_sample_a_target_is_as_typical():
    found = status(LiveStatistics(), 0.0)

    assert found.speed == SPARK.typical
    assert (found.wait_seconds, found.in_flight) == (0.0, 0)


def test_recent_samples_count_and_fade_with_a_half_life_of_ten_seconds():
    live = LiveStatistics()
    Call(live).begin(2.2)

    assert status(live, 2.2).speed.ttft_seconds == 2.2
    assert round(status(live, 12.2).speed.ttft_seconds, 3) == 1.2
    assert status(live, 500.0).speed.ttft_seconds < 0.21


def test_a_request_without_its_first_token_shows_the_queue_before_any_sample():
    live = LiveStatistics()
    call = Call(live)

    assert round(status(live, 5.0).wait_seconds, 2) == 4.8
    call.end(5.0)
    assert status(live, 5.01).wait_seconds == 0.0


def test_an_answer_that_comes_whole_shows_no_queue():
    live = LiveStatistics()
    Call(live, is_streaming=False)

    found = status(live, 60.0)
    assert (found.wait_seconds, found.in_flight) == (0.0, 1)


def test_a_call_that_is_over_is_no_longer_in_flight():
    live = LiveStatistics()
    one, other = Call(live), Call(live)
    one.end(1.0)

    assert status(live, 1.0).in_flight == 1
    other.end(2.0)
    other.end(2.0)
    assert status(live, 3.0).in_flight == 0


def test_a_long_prompt_tells_how_fast_the_target_reads():
    live = LiveStatistics()
    Call(live, tokens=40_000).begin(2.2)

    speed = status(live, 2.2).speed
    assert speed.ttft_seconds == SPARK.typical.ttft_seconds
    assert round(speed.prefill_tokens_per_second) == 20_000


def busy(seconds, status=429):
    return UpstreamRefused("spark", status, b"", "", retry_after_seconds=seconds)


@pytest.mark.parametrize("code", [429, 503, 529])
def test_a_target_that_named_a_time_is_left_alone_until_then(code):
    live = LiveStatistics()
    Call(live).end(100.0, error=busy(30, code))

    assert status(live, 100.001).closed_seconds == pytest.approx(30, abs=0.01)
    assert (status(live, 110.0).closed_seconds, status(live, 110.0).wait_seconds) == (20, 0)
    assert status(live, 130.1).closed_seconds == 0


@pytest.mark.parametrize("error", [busy(None), busy(0), busy(30, 400), busy(30, 500)])
def test_a_refusal_without_a_time_or_of_another_kind_closes_nothing(error):
    live = LiveStatistics()
    Call(live).end(100.0, error=error)

    assert status(live, 101.0).closed_seconds == 0


def test_after_fifteen_minutes_one_request_finds_out_whether_the_target_is_open_again():
    live = LiveStatistics()
    Call(live).end(0.0, error=busy(7_200))
    assert status(live, 899.0).closed_seconds == 1

    assert status(live, 901.0).closed_seconds == 0
    probe = Call(live, at=901.0)
    assert status(live, 902.0).closed_seconds > 900
    probe.end(903.0, error=busy(60))
    assert status(live, 904.0).closed_seconds == 59


def test_a_target_that_serves_before_the_time_it_named_is_open_again():
    live = LiveStatistics()
    Call(live).end(0.0, error=busy(7_200))

    Call(live, at=901.0).end(902.0)

    assert status(live, 903.0).closed_seconds == 0


def test_what_a_target_says_last_counts():
    live = LiveStatistics()
    one, other = Call(live), Call(live)
    one.end(0.0, error=busy(600))
    other.end(1.0, error=busy(5))

    assert status(live, 2.0).closed_seconds == 4


def test_speed_is_the_median_of_what_was_seen_of_the_target_itself():
    live = LiveStatistics()
    for speed in (900, 100, 950):
        Call(live).end(1.0, speed)
    Call(live).end(1.0, 5, is_own=False)

    assert status(live, 1.0).speed.tokens_per_second == 900


def test_until_something_is_learnt_every_target_works_as_expected():
    live = LiveStatistics()

    assert [found.ratio for found in live.statuses(TARGETS, 0.0).values()] == [WorkRatio(1.0, 1.0)] * 2


def test_what_is_learnt_of_a_target_shows_in_its_status_alone_whenever_it_is_learnt():
    before, after = LiveStatistics(), LiveStatistics()
    after.statuses(TARGETS, 0.0)

    for live in (before, after):
        live.learn({"spark": WorkRatio(1.4, 0.8), "nobody": WorkRatio(3.0, 3.0)})
        statuses = live.statuses(TARGETS, 1.0)
        assert statuses["spark"].ratio == WorkRatio(1.4, 0.8)
        assert statuses["sage"].ratio == WorkRatio()
        assert set(statuses) == {"spark", "sage"}


def test_a_target_of_which_nothing_is_known_any_more_works_as_expected_again():
    live = LiveStatistics()
    live.learn({"spark": WorkRatio(1.4, 0.8)})
    live.statuses(TARGETS, 0.0)

    live.learn({"sage": WorkRatio(2.0, 2.0)})

    statuses = live.statuses(TARGETS, 1.0)
    assert statuses["spark"].ratio == WorkRatio()
    assert statuses["sage"].ratio == WorkRatio(2.0, 2.0)


def test_a_new_plan_finds_the_figures_of_its_targets_and_lists_no_others():
    live = LiveStatistics()
    call = Call(live)
    call.begin(2.2)
    renewed = {"spark": replace(SPARK, window_tokens=9), "owl": make_target("owl")}

    statuses = live.statuses(renewed, 2.2)
    call.end(2.3, 500.0)

    assert statuses["spark"].target is renewed["spark"]
    assert statuses["spark"].speed.ttft_seconds == 2.2
    assert statuses["spark"].in_flight == 1
    assert set(statuses) == {"spark", "owl"}
    assert live.statuses(renewed, 2.4)["spark"].target is renewed["spark"]
    assert live.statuses(renewed, 2.4)["spark"].in_flight == 0


GONE = UpstreamUnreachable("spark", "nobody there")


def fail_often(live, count=5, at=100.0, target=SPARK, error=GONE):
    for _ in range(count):
        Call(live, at=at, target=target).end(at, error=error)


def test_a_target_that_failed_five_times_in_a_row_rests_and_names_no_time():
    live = LiveStatistics()
    fail_often(live, 4)
    assert status(live, 100.1).wait_seconds == 0
    fail_often(live, 1)

    found = status(live, 100.2)
    assert (found.wait_seconds, found.closed_seconds) == (RESTED_WAIT_SECONDS, 0)
    assert status(live, 100.2, "sage").wait_seconds == 0


def test_a_refusal_that_blames_the_request_is_no_failure_of_the_target():
    live = LiveStatistics()
    fail_often(live, 9, error=UpstreamRefused("spark", 400, b"", ""))

    assert status(live, 100.1).wait_seconds == 0


def test_after_its_rest_one_request_goes_there_and_the_others_only_when_it_served():
    live = LiveStatistics()
    fail_often(live)
    assert status(live, 101.1).wait_seconds == 0
    probe = Call(live, at=101.1)
    assert status(live, 101.2).wait_seconds == RESTED_WAIT_SECONDS

    probe.begin(101.3)
    assert status(live, 101.3).wait_seconds == 0


def test_a_probe_that_fails_doubles_the_rest_and_one_whose_caller_left_leaves_it_to_the_next():
    live = LiveStatistics()
    fail_often(live)
    Call(live, at=101.5).end(101.6, error=GONE)
    assert status(live, 103.5).wait_seconds == RESTED_WAIT_SECONDS
    assert status(live, 103.7).wait_seconds == 0

    left = Call(live, at=104.0)
    left.exchange.note(AttemptEnded(104.1, SPARK, Attempt("spark", None, "abandoned", 0.1), None, None, None, False))
    assert status(live, 104.2).wait_seconds == 0


def test_where_every_target_rests_none_is_passed_over():
    live = LiveStatistics()
    fail_often(live)
    fail_often(live, target=SAGE)

    assert [status(live, 100.5, name).wait_seconds for name in TARGETS] == [0, 0]


def test_an_answer_to_a_call_from_before_the_failures_ends_no_rest_and_opens_no_closed_target():
    live = LiveStatistics()
    early = Call(live, at=50.0)
    fail_often(live)
    Call(live, at=100.0).end(100.0, error=busy(30))
    early.end(100.1, 900.0)

    found = status(live, 100.2)
    assert found.wait_seconds == RESTED_WAIT_SECONDS
    assert found.closed_seconds > 29


def test_what_a_request_may_do_after_a_failure_is_told_from_what_others_met():
    live = LiveStatistics()
    status(live, 0.0)
    Call(live, at=100.0).end(100.0, error=GONE)
    assert live.allowance((SPARK, SAGE), "spark", 100.1).standing("sage") is Standing.UNKNOWN
    asked = Call(live, at=100.2, target=SAGE)
    assert live.allowance((SPARK, SAGE), "spark", 100.3).standing("sage") is Standing.AWAITED
    asked.begin(100.4)
    assert live.allowance((SPARK, SAGE), "spark", 100.5).standing("sage") is Standing.PROVEN


def test_the_budget_grows_with_the_calls_that_are_open():
    live = LiveStatistics()
    for _ in range(3):
        live.budget.take("sage")
    assert not live.allowance((SPARK, SAGE), "spark", 0.0).has_budget
    calls = [Call(live) for _ in range(19)]

    assert live.allowance((SPARK, SAGE), "spark", 0.0).has_budget
    assert len(calls) == 19


def test_a_limit_of_one_callers_own_key_closes_the_target_for_nobody_else():
    live, own = LiveStatistics(), replace(SPARK, takes_callers_key=True)
    for _ in range(6):
        Call(live, at=100.0, target=own).end(100.0, error=busy(30))

    found = live.statuses({"spark": own}, 100.1)["spark"]
    assert (found.closed_seconds, found.wait_seconds) == (0, 0)
    assert [window.resets_at for windows in live.limits.told.values() for window in windows] == [130.0]
