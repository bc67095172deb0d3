import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from router.contract.economics import FailureRates
from router.contract.entry import Attempt, Pace
from router.contract.errors import TiersBusy, UpstreamAuth, UpstreamModel, UpstreamRefused, UpstreamUnreachable
from router.contract.exchange import Arrival, Deadline, Exchange, Passed
from router.contract.facts import AttemptEnded, AttemptOpened, FirstToken, LimitsTold, QuestionEnded, Read
from router.contract.relay import RouteRequest
from router.contract.target import LimitWindow, Quota, WorkRatio
from router.contract.usage import Usage
from router.contract.words import Dialect, Operation, PassedRoute, Tier
from router.dispatch.live.past import PastPace
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.live.target import RESTED_WAIT_SECONDS
from router.limits.retries import Track
from tests.tools.exchanges import Told, make_decided, make_decision, make_exchange
from tests.tools.values import ask, make_signals, make_target, make_view, stand

SPARK, SAGE = make_target(), make_target("sage", Tier.DEEP)
TARGETS = {"spark": SPARK, "sage": SAGE}
TOLD = Usage(100, 400)


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

    def leave(self, at: float) -> None:
        self.exchange.note(AttemptEnded(at, self.target, Attempt("spark", None, "abandoned", at), None, None, None))

    def end(self, at: float, speed: float | None = None, *, error=None, usage: Usage | None = TOLD, prefill=None) -> None:
        row = Attempt("spark", 200, None, at, usage, pace=Pace("", None, speed, prefill))
        self.exchange.note(AttemptEnded(at, self.target, row, error, usage, speed))


def status(live: LiveStatistics, now: float, name: str = "spark"):
    return live.statuses(TARGETS, now)[name]


def test_before_any_sample_a_target_is_as_typical():
    found = status(LiveStatistics(), 0.0)

    assert found.speed == SPARK.typical
    assert (found.wait_seconds, found.in_flight) == (0.0, 0)


@pytest.fixture
def live():
    return LiveStatistics()


def test_a_request_without_its_first_token_shows_the_queue_before_any_sample(live):
    call = Call(live)

    assert round(status(live, 5.0).wait_seconds, 2) == 4.8
    call.end(5.0)
    assert status(live, 5.01).wait_seconds == 0.0


def test_a_queue_is_no_slowness_and_the_next_prompt_call_ends_it(live):
    Call(live).begin(8.2)

    found = status(live, 8.2)
    assert (round(found.wait_seconds, 6), found.speed.ttft_seconds) == (8.0, 0.2)
    Call(live, at=9.0).begin(9.2)
    assert status(live, 9.2).wait_seconds == 0.0


def test_behind_a_queue_that_was_left_nobody_is_told_that_there_is_none(live):
    call = Call(live)
    call.leave(2.0)

    assert status(live, 2.0).wait_seconds == pytest.approx(3.6)
    assert status(live, 6.0).wait_seconds < 1.0


def test_a_long_prompt_is_not_late_while_it_is_read(live):
    Call(live, tokens=120_000)

    assert status(live, 2.2).wait_seconds == 0.0
    assert round(status(live, 3.2).wait_seconds, 2) == 1.0


def test_where_calls_have_been_late_for_minutes_each_call_of_a_turn_counts_as_late(live):
    for at in range(0, 150, 30):
        Call(live, at=at).begin(at + 8.2)

    found = status(live, 128.2)
    assert (found.wait_seconds, round(found.speed.ttft_seconds, 1)) == (0.0, 8.2)


def test_a_wait_is_held_against_the_targets_max_wait():
    live, targets = LiveStatistics(), {"spark": replace(SPARK, quota=Quota(max_wait_seconds=2.0))}
    Call(live, target=targets["spark"])

    assert not live.statuses(targets, 2.1)["spark"].is_over_max_wait
    assert live.statuses(targets, 2.3)["spark"].is_over_max_wait


def test_a_request_that_waits_goes_where_it_would_wait_less(live):
    Call(live, target=SAGE)

    assert live.is_sooner(SAGE, make_signals(), ask(), 2.0, 2.0)
    assert not live.is_sooner(SAGE, make_signals(), ask(), 2.0, 4.0)
    assert live.is_sooner(SPARK, make_signals(), ask(), 2.0, 4.0)


def test_an_answer_that_comes_whole_shows_no_queue(live):
    Call(live, is_streaming=False)

    found = status(live, 60.0)
    assert (found.wait_seconds, found.in_flight) == (0.0, 1)


def test_a_call_that_is_over_is_no_longer_in_flight(live):
    one, other = Call(live), Call(live)
    one.end(1.0)

    assert status(live, 1.0).in_flight == 1
    other.end(2.0)
    other.end(2.0)
    assert status(live, 3.0).in_flight == 0


@pytest.mark.parametrize("cached", [39_000, 20_000, 0])
def test_what_the_target_had_kept_of_a_prompt_does_not_count_as_read(live, cached):
    call = Call(live, tokens=40_000)
    call.begin(2.2)
    call.end(4.0, usage=Usage(40_000, 10, cached))

    expected = {39_000: SPARK.typical.prefill_tokens_per_second, 20_000: 10_000, 0: 20_000}
    assert round(status(live, 4.0).speed.prefill_tokens_per_second) == expected[cached]


def test_a_long_prompt_of_which_nobody_says_how_much_was_kept_tells_nothing(live):
    call = Call(live, tokens=40_000)
    call.begin(2.2)
    call.end(4.0, usage=Usage(40_000, 10, is_estimated=True))

    assert status(live, 4.0).speed.prefill_tokens_per_second == SPARK.typical.prefill_tokens_per_second


def busy(seconds, status=429):
    return UpstreamRefused("spark", status, b"", "", retry_after_seconds=seconds)


@pytest.mark.parametrize("code", [429, 503, 529])
def test_a_target_that_named_a_time_is_left_alone_until_then(live, code):
    Call(live).end(100.0, error=busy(30, code))

    assert status(live, 100.001).closed_seconds == pytest.approx(30, abs=0.01)
    assert (status(live, 110.0).closed_seconds, status(live, 110.0).wait_seconds) == (20, 0)
    assert status(live, 130.1).closed_seconds == 0


@pytest.mark.parametrize("error", [busy(None), busy(0), busy(30, 400), busy(30, 500)])
def test_a_refusal_without_a_time_or_of_another_kind_closes_nothing(live, error):
    Call(live).end(100.0, error=error)

    assert status(live, 101.0).closed_seconds == 0


def test_after_fifteen_minutes_one_request_finds_out_whether_the_target_is_open_again(live):
    Call(live).end(0.0, error=busy(7_200))
    assert status(live, 899.0).closed_seconds == 1

    assert status(live, 901.0).closed_seconds == 0
    probe = Call(live, at=901.0)
    assert status(live, 902.0).closed_seconds > 900
    probe.end(903.0, error=busy(60))
    assert status(live, 904.0).closed_seconds == 59


def test_a_target_that_serves_before_the_time_it_named_is_open_again(live):
    Call(live).end(0.0, error=busy(7_200))

    Call(live, at=901.0).end(902.0)

    assert status(live, 903.0).closed_seconds == 0


def test_a_closed_target_may_be_probed_once_a_minute(live):
    Call(live).end(100.0, error=busy(7_200))

    assert not status(live, 159.0).may_probe
    assert status(live, 160.0).may_probe
    live.check_closed([SPARK], 160.0)
    assert not status(live, 160.1).may_probe
    with pytest.raises(TiersBusy):
        live.check_closed([SPARK], 160.1)
    assert status(live, 220.0).may_probe


def test_a_refusal_that_blames_the_request_proves_that_the_target_answers(live):
    Call(live, target=SAGE).end(99.0, error=GONE)
    Call(live).end(100.0, error=busy(None, 400))

    assert live.chances([SPARK], "sage", 100.1).standing("spark") is Track.PROVEN


def test_counted_pieces_are_its_speed_only_until_the_target_says_how_many_tokens_they_were():
    live, counted = LiveStatistics(), Usage(100, 50, is_estimated=True)
    Call(live).end(1.0, 40, usage=counted)
    before = status(live, 1.0).speed.tokens_per_second
    Call(live).end(2.0, 640)
    Call(live).end(3.0, 40, usage=counted)

    assert (before, status(live, 3.0).speed.tokens_per_second) == (40, 640)


def test_what_the_engine_says_of_its_reading_counts_whatever_the_prompts_length(live):
    Call(live).end(1.0, prefill=430.0)

    assert status(live, 1.0).speed.prefill_tokens_per_second == 430


def test_another_model_under_the_same_name_begins_with_what_the_config_says():
    live, other = LiveStatistics(), replace(SPARK, model="other")
    Call(live).end(1.0, 645)

    assert round(live.statuses({"spark": SPARK}, 2.0)["spark"].speed.tokens_per_second) == 645
    assert live.statuses({"spark": other}, 3.0)["spark"].speed == SPARK.typical


def test_after_a_restart_a_target_is_as_fast_as_the_ledger_says_of_its_name_and_model():
    live, other = LiveStatistics(), replace(SPARK, model="other")
    live.recall({("spark", ""): PastPace(speed=(640.0, 650.0, 645.0), at=1_000.0)}, 5.0, 1_005.0)

    assert live.statuses({"spark": SPARK}, 6.0)["spark"].speed.tokens_per_second == pytest.approx(645, rel=0.01)
    assert live.statuses({"spark": other}, 7.0)["spark"].speed == SPARK.typical


def test_a_call_of_the_past_that_waited_is_no_measure_of_how_soon_a_target_starts(live):
    live.recall({("spark", ""): PastPace(ttft=(0.3, 42.0, 0.3), at=1_000.0)}, 5.0, 1_005.0)

    assert status(live, 6.0).speed.ttft_seconds == pytest.approx(0.3, rel=0.01)


def test_a_target_takes_its_past_once_and_what_was_seen_since_is_newer():
    live, past = LiveStatistics(), {("spark", ""): PastPace(speed=(645.0,), at=1_000.0)}
    Call(live).end(1.0, 300)
    for _ in range(3):
        live.recall(past, 5.0, 1_005.0)

    assert status(live, 6.0).speed.tokens_per_second < 360
    assert status(live, 50.0).speed.tokens_per_second == pytest.approx((645 + 300) / 2, rel=0.06)


def test_what_was_counted_before_a_restart_gives_way_to_what_is_told_after_it(live):
    Call(live).end(1.0, 640)
    live.recall({("spark", ""): PastPace(speed=(40.0,) * 9, at=1_000.0, is_counted=True)}, 5.0, 1_005.0)

    assert status(live, 60.0).speed.tokens_per_second == pytest.approx(640, rel=0.02)


def test_what_is_learnt_of_a_target_shows_in_its_status_alone_whenever_it_is_learnt():
    before, after = LiveStatistics(), LiveStatistics()
    after.statuses(TARGETS, 0.0)

    for live in (before, after):
        live.learn({"spark": WorkRatio(1.4, 0.8), "nobody": WorkRatio(3.0, 3.0)})
        statuses = live.statuses(TARGETS, 1.0)
        assert statuses["spark"].ratio == WorkRatio(1.4, 0.8)
        assert statuses["sage"].ratio == WorkRatio()
        assert set(statuses) == {"spark", "sage"}


def test_how_often_a_fast_target_fails_shows_in_its_status_until_nothing_is_known_any_more():
    live, failures = LiveStatistics(), {"spark": {("sage", ""): FailureRates(0.06, 0.3, 100)}}

    live.learn({}, failures)
    learned = live.statuses(TARGETS, 0.0)
    live.learn({})
    forgotten = live.statuses(TARGETS, 1.0)

    assert (learned["spark"].failures, learned["sage"].failures) == (failures["spark"], {})
    assert forgotten["spark"].failures == {}


def test_a_target_of_which_nothing_is_known_any_more_works_as_expected_again(live):
    live.learn({"spark": WorkRatio(1.4, 0.8)})
    live.statuses(TARGETS, 0.0)

    live.learn({"sage": WorkRatio(2.0, 2.0)})

    statuses = live.statuses(TARGETS, 1.0)
    assert statuses["spark"].ratio == WorkRatio()
    assert statuses["sage"].ratio == WorkRatio(2.0, 2.0)


def test_a_new_plan_finds_the_figures_of_its_targets_and_lists_no_others(live):
    call = Call(live)
    call.begin(1.0)
    renewed = {"spark": replace(SPARK, window_tokens=9), "owl": make_target("owl")}

    statuses = live.statuses(renewed, 1.0)
    call.end(1.1, 500.0)

    assert statuses["spark"].target is renewed["spark"]
    assert statuses["spark"].speed.ttft_seconds == 1.0
    assert statuses["spark"].in_flight == 1
    assert set(statuses) == {"spark", "owl"}
    assert live.statuses(renewed, 2.4)["spark"].target is renewed["spark"]
    assert live.statuses(renewed, 2.4)["spark"].in_flight == 0


GONE = UpstreamUnreachable("spark", "nobody there")


def fail_often(live, count=5, at=100.0, target=SPARK, error=GONE):
    for _ in range(count):
        Call(live, at=at, target=target).end(at, error=error)


def test_a_target_that_failed_five_times_in_a_row_rests_and_names_no_time(live):
    fail_often(live, 4)
    assert status(live, 100.1).wait_seconds == 0
    fail_often(live, 1)

    found = status(live, 100.2)
    assert (found.wait_seconds, found.closed_seconds) == (RESTED_WAIT_SECONDS, 0)
    assert status(live, 100.2, "sage").wait_seconds == 0


@pytest.mark.parametrize("kind", [UpstreamAuth, UpstreamModel])
def test_a_target_that_rejects_its_key_or_model_rests_at_once(live, kind):
    fail_often(live, 1, error=kind("spark", "x"))

    found = status(live, 100.2)
    assert (found.wait_seconds, found.wait_because) == (RESTED_WAIT_SECONDS, "spark rests after a failure")


def test_after_its_rest_one_request_goes_there_and_the_others_only_when_it_served(live):
    fail_often(live)
    assert status(live, 101.1).wait_seconds == 0
    probe = Call(live, at=101.1)
    assert status(live, 101.2).wait_seconds == RESTED_WAIT_SECONDS

    probe.begin(101.3)
    assert status(live, 101.3).wait_seconds == 0


def test_a_probe_that_fails_doubles_the_rest_and_one_whose_caller_left_leaves_it_to_the_next(live):
    fail_often(live)
    Call(live, at=101.5).end(101.6, error=GONE)
    assert status(live, 103.5).wait_seconds == RESTED_WAIT_SECONDS
    assert status(live, 103.7).wait_seconds == 0

    left = Call(live, at=104.0)
    left.exchange.note(AttemptEnded(104.1, SPARK, Attempt("spark", None, "abandoned", 0.1), None, None, None))
    assert status(live, 104.2).wait_seconds == 0


def test_where_every_target_rests_none_is_passed_over(live):
    fail_often(live)
    fail_often(live, target=SAGE)

    assert [status(live, 100.5, name).wait_seconds for name in TARGETS] == [0, 0]


def test_an_answer_to_a_call_from_before_the_failures_ends_no_rest_and_opens_no_closed_target(live):
    early = Call(live, at=50.0)
    fail_often(live)
    Call(live, at=100.0).end(100.0, error=busy(30))
    early.end(100.1, 900.0)

    found = status(live, 100.2)
    assert found.wait_seconds == RESTED_WAIT_SECONDS
    assert found.closed_seconds > 29


def test_what_a_request_may_do_after_a_failure_is_told_from_what_others_met(live):
    status(live, 0.0)
    Call(live, at=100.0).end(100.0, error=GONE)
    assert live.chances((SPARK, SAGE), "spark", 100.1).standing("sage") is Track.UNKNOWN
    asked = Call(live, at=100.2, target=SAGE)
    assert live.chances((SPARK, SAGE), "spark", 100.3).standing("sage") is Track.AWAITED
    asked.begin(100.4)
    assert live.chances((SPARK, SAGE), "spark", 100.5).standing("sage") is Track.PROVEN


def test_the_budget_grows_with_the_calls_that_are_open(live):
    for _ in range(3):
        live.retries.under_way["sage"] += 1
    assert not live.chances((SPARK, SAGE), "spark", 0.0).has_budget
    calls = [Call(live) for _ in range(19)]

    assert live.chances((SPARK, SAGE), "spark", 0.0).has_budget
    assert len(calls) == 19


def test_a_limit_of_one_callers_own_key_closes_the_target_for_nobody_else():
    live, own = LiveStatistics(), replace(SPARK, takes_callers_key=True)
    for _ in range(6):
        Call(live, at=100.0, target=own).end(100.0, error=busy(30))

    found = live.statuses({"spark": own}, 100.1)["spark"]
    assert (found.closed_seconds, found.wait_seconds) == (0, 0)
    assert [window.resets_at for windows in live.limits.told.values() for window in windows] == [130.0]


def note_question(live, at, *, code=None, error=None) -> None:
    row = Attempt("spark", None, code, 0.1, is_question=True)
    make_exchange(live).note(QuestionEnded(at, SPARK, row, error, None, None, at - 0.1))


def test_a_question_that_fails_counts_against_its_target_as_any_call(live):
    note_question(live, 100.0, code="upstream_refused", error=busy(30))
    assert status(live, 100.1).closed_seconds == pytest.approx(29.9)

    other = LiveStatistics()
    for _ in range(5):
        note_question(other, 100.0, code="upstream_unreachable", error=GONE)
    assert status(other, 100.1).wait_seconds == RESTED_WAIT_SECONDS


def test_a_question_that_was_late_or_that_its_caller_left_says_nothing(live):
    for code in ("late", "abandoned") * 5:
        note_question(live, 100.0, code=code)

    assert (status(live, 100.1).wait_seconds, status(live, 100.1).closed_seconds) == (0.0, 0.0)


def test_an_answered_question_ends_a_row_of_failures(live):
    for _ in range(4):
        Call(live, at=100.0).end(100.0, error=GONE)
    note_question(live, 101.0)
    Call(live, at=102.0).end(102.0, error=GONE)

    assert status(live, 102.1).wait_seconds == 0.0


def too_many_at_once():
    body = b'{"error": {"message": "Number of concurrent connections has exceeded your rate limit"}}'
    return UpstreamRefused("spark", 429, body, "application/json")


def test_a_target_that_refuses_for_its_concurrency_gets_no_more_at_once_than_it_took(live):
    one, other, refused = Call(live), Call(live), Call(live)
    for each in (one, other):
        each.begin(0.2)
    refused.end(0.3, error=too_many_at_once())

    found = status(live, 0.3)
    assert (found.wait_seconds, found.is_resting) == (RESTED_WAIT_SECONDS, True)
    assert found.wait_because == "spark already has the 2 requests that it takes at once"
    one.end(0.5)
    assert status(live, 0.5).wait_seconds == 0.0
    Call(live, at=0.6).begin(0.8)
    assert status(live, 0.8).wait_seconds == RESTED_WAIT_SECONDS
    assert status(live, 70.0).wait_seconds == 0.0


def test_a_request_under_way_is_counted_against_what_its_target_told(live):
    call = Call(live)
    call.exchange.note(LimitsTold(SPARK, (LimitWindow(1, 60.0, False),)))
    signals = make_signals(stand(SPARK), stand(SAGE))
    assert live.limits.apply(signals, ask(), 1.0).statuses["spark"].wait_seconds == 0.0
    Call(live, at=1.0)

    assert live.limits.apply(signals, ask(), 1.0).statuses["spark"].wait_seconds == 59.0


def test_who_waited_for_a_target_that_rests_meanwhile_is_told_so(live):
    live.check_rest(SPARK, 0.0)
    for _ in range(5):
        Call(live).end(1.0, error=UpstreamUnreachable("spark", "no line"))

    with pytest.raises(TiersBusy, match="spark rests after 5 failures in a row"):
        live.check_rest(SPARK, 1.5)
    live.check_rest(SPARK, 2.5)


def test_what_a_request_would_wait_for_is_heeded_for_limits_and_for_quotas():
    live, limited = LiveStatistics(), make_target(quota=Quota(requests_per_minute=1, max_wait_seconds=1))
    signals = make_signals(stand(limited), stand(SAGE))
    view = make_view({"messages": [{"role": "user", "content": "x"}]})
    live.statuses({"spark": limited, "sage": SAGE}, 0.0)
    assert live.queues.is_on
    assert live.apply_limits(signals, view, 0.0) == signals

    live.limits.note(make_exchange(), LimitsTold(limited, (LimitWindow(0, 20.0, counts_prompt=False),)))

    assert live.apply_limits(signals, view, 0.0).statuses["spark"].wait_seconds == 20.0
    live.statuses(TARGETS, 1.0)
    assert not live.queues.is_on


def refused_for_length(window: int) -> UpstreamRefused:
    words = b'{"error":{"message":"This model\'s maximum context length is %d tokens."}}' % window
    return UpstreamRefused("spark", 400, words, "application/json")


def test_a_window_that_a_target_names_counts_for_every_request_from_then_on(live):
    Call(live, tokens=10_000).end(1.0, error=refused_for_length(8_192))

    assert (status(live, 1.0).target.window_tokens, live.windows) == (8_192, {"spark": 8_192})
    assert live.known(SPARK).window_tokens == 8_192
    assert live.known(SAGE) is SAGE
    assert status(live, 1.0).window_to_try == 0
    assert status(live, 62.0).window_to_try == 128_000


def test_a_window_that_is_not_smaller_than_the_configured_one_changes_nothing(live):
    Call(live, tokens=300_000).end(1.0, error=refused_for_length(200_000))

    assert (status(live, 1.0).target.window_tokens, live.windows) == (128_000, {})


def test_what_a_target_says_last_of_its_window_counts_and_a_longer_prompt_served_ends_it(live):
    Call(live, tokens=10_000).end(1.0, error=refused_for_length(8_192))
    Call(live, tokens=20_000).end(2.0, error=refused_for_length(16_384))
    raised = status(live, 2.0).target.window_tokens
    served = Call(live, tokens=20_000)
    usage = Usage(20_000, 5)
    served.exchange.note(AttemptEnded(3.0, SPARK, Attempt("spark", 200, None, 3.0, usage), None, usage, None))

    assert raised == 16_384
    assert (status(live, 3.0).target, live.windows) == (SPARK, {})


def test_a_named_window_is_kept_over_a_reload_and_forgotten_when_the_target_is_configured_otherwise(live):
    Call(live, tokens=10_000).end(1.0, error=refused_for_length(8_192))
    same, other = {"spark": replace(SPARK), "sage": SAGE}, {"spark": replace(SPARK, window_tokens=32_000), "sage": SAGE}

    earlier = replace(SPARK, window_tokens=64_000)
    kept = live.statuses(same, 2.0)["spark"].target.window_tokens
    assert live.known(earlier) is earlier
    changed = live.statuses(other, 3.0)["spark"].target.window_tokens

    assert (kept, changed, live.windows) == (8_192, 32_000, {})


def test_the_least_busy_of_several_targets_comes_first_and_equals_stay_in_their_order(live):
    Call(live)

    assert live.least_busy_first(("spark", "sage", "owl")) == ["sage", "owl", "spark"]


@pytest.mark.parametrize(
    "ask_about",
    [
        lambda live, target: live.keep_loading(target, "Loading model", 1.0),
        lambda live, target: live.end_loading(target),
        lambda live, target: live.of(target).pace.usual_seconds(10),
    ],
)
def test_what_still_goes_on_for_an_earlier_plan_changes_nothing_of_a_target(ask_about):
    live, smaller = LiveStatistics(), replace(SPARK, window_tokens=8_000)
    live.statuses({"spark": SPARK}, 0.0)
    targets = {"spark": smaller}
    live.statuses(targets, 0.5)

    ask_about(live, SPARK)

    assert live.statuses(targets, 2.0)["spark"].target == smaller


@pytest.mark.parametrize("answered", [200, 404, 500])
def test_an_answer_on_a_route_that_is_passed_on_does_not_end_a_targets_rest(answered):
    """Embeddings may be served by a host whose chat route fails."""
    live = LiveStatistics()
    fail_often(live)
    passed = Passed(PassedRoute.EMBEDDINGS, RouteRequest("POST", "/embeddings", (), b"{}"))
    exchange = Exchange(
        Arrival("req_passed", Dialect.CHAT, Operation.CREATE, {}, b"", passed=passed), 0.0, Deadline(600.0), Told(live)
    )

    exchange.note(AttemptOpened(100.1, SPARK, "", ()))
    during = live._live["spark"].circuit.probe
    exchange.note(AttemptEnded(100.2, SPARK, Attempt("spark", answered, None, 0.1), None, None, None))

    assert during == ""
    assert "rests after 5 failures" in status(live, 100.3).wait_because
    assert status(live, 100.3).in_flight == 0


def test_a_target_that_nobody_calls_is_looked_at_once(live):
    before = live.statuses(TARGETS, 0.0)
    Call(live, at=1.0).end(2.0, 50.0)
    after = live.statuses(TARGETS, 2.0)

    assert after["sage"] is before["sage"]
    assert after["spark"].speed != before["spark"].speed
    assert list(after) == list(TARGETS)


def test_a_target_that_was_called_is_looked_at_until_its_figures_have_faded(live):
    Call(live, at=0.0).end(1.0, 50.0)
    found = [status(live, at).speed.tokens_per_second for at in (1.0, 5.0, 50.0)]
    still = [status(live, at) for at in (5_000.0, 5_030.0)]

    assert len(set(found)) == 1  # in its first minute, what was seen is what is usual
    assert still[0] is still[1]


_STEPS = some.lists(
    some.tuples(
        some.sampled_from(["open", "begin", "end", "fail", "refuse", "shrink", "load", "leave", "learn", "question", "look"]),
        some.sampled_from(["spark", "sage", "owl"]),
        some.sampled_from([0.0, 0.3, 2.0, 15.0, 90.0, 1_000.0]),
    ),
    max_size=40,
)


@given(_STEPS)
def test_what_is_not_looked_at_again_has_not_changed(steps):
    live, now, under_way = LiveStatistics(), 0.0, []
    targets = {**TARGETS, "owl": make_target("owl")}
    live.statuses(targets, now)
    for what, name, seconds in steps:
        now, target = now + seconds + 0.01, targets[name]
        if what == "open":
            under_way.append(Call(live, at=now, target=target))
        elif what == "learn":
            live.learn({name: WorkRatio(1.5, 2.0)})
        elif what == "question":
            error = UpstreamRefused(name, 429, b"", "", retry_after_seconds=20.0)
            make_exchange(live).note(QuestionEnded(now, target, Attempt(name, 429, "", 0.1), error, None, None, now))
        elif what == "load":
            live.keep_loading(target, "Loading model", now)
        elif what != "look" and under_way:
            _go_on(under_way[0] if what == "begin" else under_way.pop(0), what, now)

        found = live.statuses(targets, now)

        closely = {each: live._live[each].status(now) for each in targets}
        if all(live._live[each].circuit.is_open for each in targets):
            closely = {each: known.with_wait(0.0) for each, known in closely.items()}
        assert found == closely


def _go_on(call: Call, what: str, now: float) -> None:
    name = call.target.name
    errors = {
        "fail": UpstreamUnreachable(name, "gone"),
        "refuse": UpstreamRefused(name, 429, b"", "", retry_after_seconds=20.0),
        "shrink": UpstreamRefused(name, 400, b'{"error": {"message": "maximum context length is 90 tokens"}}', ""),
    }
    if what == "begin":
        call.begin(now)
    elif what == "leave":
        call.leave(now)
    else:
        call.end(now, 50.0 if what == "end" else None, error=errors.get(what))
