"""Attempt rules: pure, so no socket, no loop, no clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from router.contract.entry import Attempt
from router.contract.errors import (
    BadRequest,
    CallerKey,
    Misfit,
    TiersBusy,
    Unavailable,
    UpstreamAuth,
    UpstreamCut,
    UpstreamError,
    UpstreamLoading,
    UpstreamMalformed,
    UpstreamModel,
    UpstreamQueued,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.exchange import Deadline
from router.contract.words import Tier
from router.dispatch.rules import (
    Form,
    GiveUp,
    Tried,
    Try,
    Wait,
    candidates_of,
    failed_in_words,
    final_error,
    next_step,
    refuses_asking,
)
from router.limits.retries import Chances, Track
from tests.tools.exchanges import make_decision
from tests.tools.values import make_target

SPARK, FLASH, SAGE = make_target("spark", Tier.FAST), make_target("flash", Tier.FAST), make_target("sage", Tier.DEEP)
LARGE = replace(SAGE, name="large", window_tokens=SAGE.window_tokens * 2)
ALL = (SPARK, FLASH, SAGE)
LATER = Deadline(100.0)
TOO_LONG = b'{"error":{"code":"context_length_exceeded","message":"maximum context length is 100 tokens"}}'
REJECTS_STATE = b'{"error":{"code":"invalid_encrypted_content"}}'
FORGOTTEN = b'{"error":{"code":"previous_response_not_found"}}'


def refused(target, status, body=b"{}", wait=None):
    return UpstreamRefused(target.name, status, body, "application/json", retry_after_seconds=wait)


def tried(target, error, form=Form.AS_DECIDED, **more):
    status = error.status if isinstance(error, UpstreamRefused) else None
    return Tried(target, Attempt(target.name, status, error.code, 0.1), error, form, **more)


def allow(standing=Track.PROVEN, *, has_budget=True, **each):
    return Chances(has_budget, {**dict.fromkeys(("spark", "flash", "sage", "large", "same", "small"), standing), **each})


FREELY = allow()
"""Every target has lately served, and the budget has room."""


def step(*past, candidates=ALL, now=0.0, deadline=LATER, chances=FREELY):
    return next_step(candidates, past, now, deadline, chances)


def test_the_first_step_calls_the_first_target():
    assert step() == Try("spark")


def test_a_decisions_candidates_are_two_of_its_tier_and_one_of_the_other():
    decision = make_decision(targets=("a", "b", "c"), spill=("x", "y"))

    assert candidates_of(decision) == ("a", "b", "x")


@pytest.mark.parametrize("status", [408, 409, 425, 429, 498, 500, 502, 503, 529])
def test_a_passing_refusal_goes_to_the_next_target(status):
    assert step(tried(SPARK, refused(SPARK, status))) == Try("flash")


@pytest.mark.parametrize(
    "kind", [UpstreamUnreachable, UpstreamTimeout, UpstreamMalformed, UpstreamCut, UpstreamAuth, UpstreamModel]
)
def test_a_target_that_failed_is_followed_by_the_next(kind):
    assert step(tried(SPARK, kind("spark", "it failed"))) == Try("flash")
    assert step(tried(SPARK, kind("spark", "x")), tried(FLASH, kind("flash", "x"))) == Try("sage")


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_a_refusal_that_blames_the_request_is_the_callers_to_see(status):
    error = refused(SPARK, status)

    assert step(tried(SPARK, error)) == GiveUp(error)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_was_too_long_goes_to_a_larger_window_only(status):
    past = tried(SAGE, refused(SAGE, status, TOO_LONG))

    assert step(past, candidates=(SAGE, LARGE)) == Try("large")
    assert step(past, candidates=(SAGE, replace(SAGE, name="same"))) == GiveUp(past.error)
    assert step(past, candidates=(SAGE, replace(SAGE, name="small", window_tokens=10), LARGE)) == Try("large")


def test_a_bad_request_is_not_retried_on_a_larger_window_without_saying_that_it_was_too_long():
    past = tried(SAGE, refused(SAGE, 400, b'{"error":{"message":"tools: missing name"}}'))

    assert step(past, candidates=(SAGE, LARGE)) == GiveUp(past.error)


def test_a_missing_callers_key_is_not_tried_elsewhere():
    error = CallerKey("no key")

    assert step(tried(SPARK, error)) == GiveUp(error)


def test_a_misfit_at_one_target_does_not_stop_another_and_the_first_is_told():
    first, second = Misfit("no tools here"), Misfit("no images here")

    assert step(tried(SPARK, first)) == Try("flash")
    assert step(tried(SPARK, first), tried(FLASH, second), tried(SAGE, second)) == GiveUp(first)


def test_a_misfit_after_a_failure_leaves_the_failure_to_be_told():
    failure = UpstreamUnreachable("spark", "no connection")
    given_up = step(tried(SPARK, failure), tried(FLASH, Misfit("x")), candidates=(SPARK, FLASH))

    assert isinstance(given_up, GiveUp)
    assert given_up.error.code == "upstream_unreachable"
    assert "no connection. Tried: spark (upstream_unreachable), flash (misfit)" in given_up.error.message
    assert failure.message == "no connection"


def test_after_the_deadline_nobody_else_is_called():
    past = tried(SPARK, UpstreamUnreachable("spark", "x"))

    assert step(past, now=99.9) == Try("flash")
    assert step(past, now=99.995) == GiveUp(past.error), "a timer that fires a moment early is the deadline's"
    assert step(past, now=100.0) == GiveUp(past.error)


def test_a_target_that_lost_its_response_is_asked_again_with_the_whole_history_once():
    for error in (refused(SPARK, 400, FORGOTTEN), UpstreamModel("spark", "404")):
        past = tried(SPARK, error, sent_reference=True)

        assert step(past) == Try("spark", Form.WITHOUT_REFERENCE)
        assert step(past, tried(SPARK, error, Form.WITHOUT_REFERENCE, sent_reference=True)) != Try(
            "spark", Form.WITHOUT_REFERENCE
        )
        assert step(tried(SPARK, error)) != Try("spark", Form.WITHOUT_REFERENCE)


def test_a_target_that_rejects_hidden_state_is_asked_again_without_it_once():
    error = refused(SPARK, 400, REJECTS_STATE)
    past = tried(SPARK, error, sent_state=True)

    assert step(past) == Try("spark", Form.WITHOUT_STATE)
    given_up = step(past, tried(SPARK, error, Form.WITHOUT_STATE, sent_state=True))
    assert isinstance(given_up, GiveUp)
    assert (given_up.error.body, given_up.error.was_tried_again) == (error.body, True)
    assert step(tried(SPARK, error)) == GiveUp(error)


def test_both_second_tries_may_follow_one_another():
    lost = tried(SPARK, refused(SPARK, 400, FORGOTTEN), sent_reference=True)
    rejected = tried(SPARK, refused(SPARK, 400, REJECTS_STATE), Form.WITHOUT_REFERENCE, sent_state=True)

    assert step(lost, rejected) == Try("spark", Form.WITHOUT_STATE)


def test_a_429_among_the_attempts_is_told_with_the_shortest_wait():
    error = final_error([tried(SPARK, refused(SPARK, 429, wait=30.0)), tried(FLASH, refused(FLASH, 503, wait=4.0))])

    assert isinstance(error, TiersBusy)
    assert error.retry_after_seconds == 4.0
    assert "spark (429), flash (503)" in error.message


@pytest.mark.parametrize("other", [401, 404, 498, 500, 503, 529])
def test_without_a_429_among_the_attempts_nobody_is_told_that_targets_are_busy(other):
    error = final_error([tried(SPARK, refused(SPARK, other)), tried(FLASH, refused(FLASH, 500))])

    assert not isinstance(error, TiersBusy)


@pytest.mark.parametrize("status", [401, 499, 500, 503])
def test_a_target_alone_is_asked_once_more_from_a_500_on(status):
    found = step(tried(SPARK, refused(SPARK, status)), candidates=(SPARK,))

    assert isinstance(found, Try) is (status >= 500)


def test_a_429_without_a_wait_asks_for_a_second():
    assert final_error([tried(SPARK, refused(SPARK, 429))]).retry_after_seconds == 1.0


def test_an_overload_is_told_as_one_and_other_refusals_as_a_failure_of_the_target():
    assert type(final_error([tried(SPARK, refused(SPARK, 529))])) is Unavailable
    failed = final_error([tried(SPARK, refused(SPARK, 500))])
    assert (type(failed), failed.status, failed.code) == (UpstreamRefused, 502, "upstream_refused")
    assert "spark (500)" in failed.message


@pytest.mark.parametrize("status", [500, 502, 503, 520, 529])
def test_a_failure_that_may_pass_is_tried_once_more_where_there_is_no_other_target(status):
    past = tried(SPARK, refused(SPARK, status))

    assert step(past, candidates=(SPARK,)) == Try("spark", Form.AGAIN, is_paid=True)
    found = step(past, tried(SPARK, refused(SPARK, status), Form.AGAIN), candidates=(SPARK,))
    assert isinstance(found, GiveUp)


def test_a_stream_that_was_cut_before_its_first_event_is_tried_once_more():
    assert step(tried(SPARK, UpstreamCut("spark", "x")), candidates=(SPARK,)) == Try("spark", Form.AGAIN, is_paid=True)


@pytest.mark.parametrize(
    "error",
    [
        refused(SPARK, 503, wait=3.0),
        refused(SPARK, 429),
        refused(SPARK, 400),
        UpstreamTimeout("spark", "x"),
        UpstreamUnreachable("spark", "x"),
        UpstreamAuth("spark", "x"),
    ],
)
def test_what_named_a_time_or_would_take_as_long_again_is_not_tried_once_more(error):
    assert isinstance(step(tried(SPARK, error), candidates=(SPARK,)), GiveUp)


def test_after_two_targets_none_is_tried_once_more():
    past = [tried(SPARK, refused(SPARK, 500)), tried(FLASH, refused(FLASH, 500))]

    assert isinstance(step(*past, candidates=(SPARK, FLASH)), GiveUp)


def test_an_error_says_whether_more_than_one_attempt_was_made():
    once, twice = [tried(SPARK, refused(SPARK, 500))], [tried(SPARK, refused(SPARK, 500)), tried(FLASH, refused(FLASH, 500))]

    assert not final_error(once).was_tried_again
    assert final_error(twice).was_tried_again


def test_what_failed_before_is_told_for_other_targets_only():
    past = [tried(SPARK, refused(SPARK, 503)), tried(FLASH, Misfit("x"))]

    assert failed_in_words(past, "sage") == "spark failed (503), flash cannot serve this (misfit)"
    assert failed_in_words(past, "spark") == "flash cannot serve this (misfit)"


def test_a_target_that_was_left_in_its_queue_is_told_as_that():
    left = Tried(SPARK, Attempt("spark", None, "upstream_queued", 2.0), UpstreamQueued("spark", "x"))

    assert failed_in_words([left], "sage") == "spark had not begun after 2.0 s"


ERRORS = some.one_of(
    some.sampled_from([400, 404, 408, 409, 413, 425, 429, 500, 503, 529]).map(lambda status: ("refused", status)),
    some.sampled_from([UpstreamUnreachable, UpstreamTimeout, UpstreamCut, UpstreamAuth, UpstreamModel, Misfit, CallerKey]),
)
BODIES = some.sampled_from([b"{}", TOO_LONG, REJECTS_STATE, FORGOTTEN])


def make_error(target, kind, body):
    if isinstance(kind, tuple):
        return refused(target, kind[1], body)
    return kind(target.name, "it failed") if issubclass(kind, UpstreamError) else kind("it failed")


@given(some.lists(some.tuples(ERRORS, BODIES, some.booleans(), some.booleans()), max_size=20), some.integers(1, 3))
def test_whatever_fails_the_attempts_end_and_nobody_is_called_twice_in_the_same_way(outcomes, count):
    candidates, past = ALL[:count], []
    for kind, body, sent_reference, sent_state in [*outcomes, *[(("refused", 500), b"{}", False, False)] * 12]:
        found = next_step(candidates, past, 0.0, LATER, FREELY)
        if isinstance(found, GiveUp):
            break
        target = next(one for one in candidates if one.name == found.target)
        past.append(
            tried(target, make_error(target, kind, body), found.form, sent_reference=sent_reference, sent_state=sent_state)
        )
    else:
        pytest.fail("it never gave up")

    calls = [(one.target.name, one.form) for one in past]
    context = [target.name for target in candidates]
    assert 1 <= len(calls) == len(set(calls)) <= 3 * count
    assert [context.index(name) for name, _ in calls] == sorted(context.index(name) for name, _ in calls)
    assert isinstance(found.error, tuple({type(one.error) for one in past} | {TiersBusy, Unavailable}))


@given(some.floats(0, 200), ERRORS, BODIES)
def test_a_step_never_outlives_the_deadline(now, kind, body):
    found = next_step(ALL, [tried(SPARK, make_error(SPARK, kind, body))], now, LATER, FREELY)

    assert isinstance(found, GiveUp) or now < LATER.at


@given(ERRORS, BODIES)
def test_only_errors_of_a_target_are_tried_elsewhere(kind, body):
    error = make_error(SPARK, kind, body)
    found = next_step(ALL, [tried(SPARK, error)], 0.0, LATER, FREELY)

    if isinstance(found, Try):
        assert isinstance(error, (UpstreamError, BadRequest))


BROKEN = tried(SPARK, refused(SPARK, 500))


@pytest.mark.parametrize(
    ("standing", "with_budget", "without"),
    [
        (Track.PROVEN, Try("flash"), Try("flash")),
        (Track.UNKNOWN, Try("flash", is_paid=True), Try("flash", is_paid=True)),
        (Track.AWAITED, Try("flash", is_paid=True), Wait("flash")),
        (Track.FAILED, Try("flash", is_paid=True), Try("sage")),
    ],
)
def test_a_move_is_free_to_a_target_that_has_served_and_else_shares_the_budget(standing, with_budget, without):
    assert step(BROKEN, chances=allow(flash=standing)) == with_budget
    assert step(BROKEN, chances=allow(flash=standing, has_budget=False)) == without


def test_without_budget_a_request_gives_up_when_every_other_target_fails_too_and_names_them():
    found = step(BROKEN, chances=allow(Track.FAILED, has_budget=False))

    assert isinstance(found, GiveUp)
    assert "spark (500), flash (failing, not asked again), sage (failing, not asked again)" in found.error.message
    assert not found.error.was_tried_again


def test_the_same_target_a_second_time_costs_budget_and_does_not_wait_for_it():
    assert step(BROKEN, candidates=(SPARK,)) == Try("spark", Form.AGAIN, is_paid=True)
    assert isinstance(step(BROKEN, candidates=(SPARK,), chances=allow(has_budget=False)), GiveUp)


@pytest.mark.parametrize(
    "past", [tried(SPARK, Misfit("no tools here")), tried(replace(SPARK, window_tokens=10), refused(SPARK, 400, TOO_LONG))]
)
def test_where_no_target_failed_a_move_costs_nothing(past):
    assert step(past, chances=allow(Track.AWAITED, has_budget=False)) == Try("flash")


STANDINGS = some.sampled_from(list(Track))


@given(some.floats(0, 200), ERRORS, BODIES, some.booleans(), STANDINGS, STANDINGS)
def test_without_budget_only_one_that_nobody_asked_is_paid_for_and_nothing_waits_past_the_deadline(
    now, kind, body, has_budget, flash, sage
):
    chances = allow(has_budget=has_budget, flash=flash, sage=sage)
    found = next_step(ALL, [tried(SPARK, make_error(SPARK, kind, body))], now, LATER, chances)

    assert isinstance(found, GiveUp) or now < LATER.at
    if isinstance(found, Wait):
        assert not has_budget
        assert chances.standing(found.target) is Track.AWAITED
    if isinstance(found, Try) and found.is_paid:
        assert has_budget or chances.standing(found.target) is Track.UNKNOWN


def busy(target, seconds=9.0):
    return tried(target, TiersBusy(f"{target.name} is at its quota", retry_after_seconds=seconds))


@pytest.mark.parametrize("standing", list(Track))
def test_from_a_target_at_its_quota_the_move_is_free_and_says_so(standing):
    past = [busy(SPARK)]

    assert step(*past, chances=allow(standing, has_budget=False)) == Try("flash")
    assert failed_in_words(past, "flash") == "spark is at its quota"


def test_where_all_are_at_their_quota_the_shortest_wait_is_told():
    given_up = step(busy(SPARK, 9.0), busy(FLASH, 4.0), busy(SAGE, 30.0))

    assert isinstance(given_up.error, TiersBusy)
    assert (given_up.error.retry_after_seconds, given_up.error.message) == (4.0, "flash is at its quota")


def test_a_quota_among_failures_makes_it_a_429_with_its_wait_and_its_own_words():
    error = final_error([tried(SPARK, refused(SPARK, 500)), busy(SAGE, 12.0)])

    assert isinstance(error, TiersBusy)
    assert error.retry_after_seconds == 12.0
    assert "spark (500), sage (busy)" in error.message


def test_a_failure_before_a_full_quota_still_counts_against_the_budget():
    past = [tried(SPARK, refused(SPARK, 500)), busy(FLASH)]

    assert step(*past, chances=allow(Track.UNKNOWN)) == Try("sage", is_paid=True)
    assert step(*past, chances=allow(Track.FAILED, has_budget=False)).error.status == 429


def test_a_target_that_is_loading_is_left_without_budget_is_not_asked_again_and_told_in_its_own_words():
    loading = tried(SPARK, UpstreamLoading("spark", "Loading model"))
    spent = Chances(False, {"sage": Track.FAILED})

    assert next_step((SPARK, SAGE), [loading], 0.0, LATER, spent) == Try("sage")
    alone = next_step((SPARK,), [loading], 0.0, LATER, Chances(True, {}))
    assert isinstance(alone, GiveUp)
    assert (alone.error.status, alone.error.message) == (503, 'spark is loading its model ("Loading model")')
    assert failed_in_words([loading], "sage") == 'spark is loading its model ("Loading model")'
    assert 'spark (loading: "Loading model"), sage (502)' in final_error([loading, tried(SAGE, refused(SAGE, 502))]).message


@pytest.mark.parametrize("form", [Form.AS_DECIDED, Form.WITHOUT_STATE])
def test_a_target_that_refused_to_be_asked_for_usage_gets_the_same_request_again(form):
    assert step(tried(SPARK, refused(SPARK, 400), form, refused_usage=True)) == Try("spark", form)


@pytest.mark.parametrize(("status", "body", "is_refused"), [
    (400, b'{"error":{"param":"stream_options"}}', True),
    (422, b'{"detail":[{"loc":["body","stream_options"]}]}', True),
    (500, b"stream_options", False),
    (400, b"temperature", False),
])  # fmt: skip
def test_a_refusal_of_the_question_is_known_by_the_fields_name(status, body, is_refused):
    assert refuses_asking(refused(SPARK, status, body)) is is_refused


def test_who_leaves_a_queue_moves_without_the_budget_of_failures():
    left = Tried(SPARK, Attempt("spark", None, "upstream_queued", 2.0), UpstreamQueued("spark", "x"))

    assert step(left, candidates=(SPARK, SAGE), chances=allow(Track.AWAITED, has_budget=False)) == Try("sage")
