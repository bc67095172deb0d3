"""One target: the window that it named, and the status that its parts make together."""

import pytest

from router.contract.usage import Usage
from router.dispatch.live.target import LiveTarget, Window
from tests.tools.values import make_target

SPARK = make_target(window_tokens=32_000)


def test_a_smaller_window_that_a_target_named_counts_and_is_news_once():
    window = Window(SPARK)

    assert [window.tell(tokens, 0.0) for tokens in (8_000, 8_000, 99_000)] == [True, False, True]
    assert not window.is_told
    assert window.tell(8_000, 0.0)
    assert (window.known.window_tokens, window.is_told) == (8_000, True)


def test_the_configured_window_is_tried_again_after_a_minute():
    window = Window(SPARK)
    assert window.to_try(100.0) is None
    window.tell(8_000, 0.0)

    assert [window.to_try(now) for now in (59.0, 60.0)] == [None, 32_000]


@pytest.mark.parametrize(
    ("usage", "is_over"),
    [(Usage(9_000, 1), True), (Usage(8_000, 1), False), (Usage(9_000, 1, is_estimated=True), False), (None, False)],
)
def test_a_larger_prompt_that_was_served_ends_what_the_target_said(usage, is_over):
    window = Window(SPARK)
    window.tell(8_000, 0.0)

    assert (window.doubt(usage), window.is_told) == (is_over, not is_over)


def test_a_window_that_was_named_outlives_a_config_that_says_the_same():
    same, other = Window(SPARK), Window(SPARK)
    for window in (same, other):
        window.tell(8_000, 0.0)
    same.follow(make_target(window_tokens=32_000))
    other.follow(make_target(window_tokens=16_000))

    assert (same.known.window_tokens, other.known.window_tokens) == (8_000, 16_000)


def test_another_model_under_the_same_name_begins_with_nothing():
    same, other = LiveTarget(SPARK), LiveTarget(SPARK)
    for live in (same, other):
        live.pace.add_speed(40.0, 0.0, is_counted=False)
        live.queue.lateness.begin_late(8.0, 0.0, 8.2)
    same.follow(make_target(window_tokens=9_000))
    other.follow(make_target(model="another"))

    assert (same.status(8.2).wait_seconds, other.status(8.2).wait_seconds) == (8.0, 0.0)
    assert (same.pace.speed.is_learned, other.pace.speed.is_learned) == (True, False)


def test_a_target_that_has_all_that_it_takes_or_rests_is_passed_over_and_says_why():
    live = LiveTarget(SPARK)
    live.is_watched, live.queue.open["0"] = True, 0.0
    live.queue.refuse(0.0)
    assert live.status(1.0).wait_because == "spark already has the 1 requests that it takes at once"

    live.queue.forget()
    for _ in range(5):
        live.circuit.fail(1.0)

    assert (live.status(1.5).wait_because, live.status(1.5).is_resting) == ("spark rests after 5 failures in a row", True)
    assert not live.status(2.0).is_resting
