"""One target as its calls show it."""

import pytest

from router.dispatch.live.target import LiveTarget
from tests.tools.values import ask, make_target

SPARK = make_target()


def called(*opened_at: float) -> LiveTarget:
    """A target with streams under way."""
    live = LiveTarget(SPARK)
    for number, at in enumerate(opened_at):
        live.open[str(number)] = at
        live.unanswered[str(number)] = at + live.usual_seconds(100)
        live.asked[str(number)] = ask()
    return live


def test_how_long_a_prompt_usually_waits_depends_on_its_length_only_if_that_is_long():
    live = LiveTarget(SPARK)

    assert live.usual_seconds(7_999) == 0.2
    assert live.usual_seconds(60_000) == 1.2


def test_a_first_token_is_prompt_or_shows_a_queue():
    live = called(0.0, 10.0)

    assert not live.begin("0", 0.0, 8.2)
    assert round(live.status(8.2).wait_seconds, 3) == 8.0
    assert live.begin("1", 10.0, 10.2)
    assert live.status(10.2).wait_seconds == 0.0


def test_a_call_that_ended_early_shows_a_queue_only_if_it_was_left_for_that():
    left, refused = called(0.0), called(0.0)
    left.leave("0", 0.0, 2.0)
    refused.leave("0", None, 2.0)

    assert (round(left.status(2.0).wait_seconds, 3), refused.status(2.0).wait_seconds) == (3.6, 0.0)


def test_what_it_says_last_of_how_long_to_leave_it_alone_counts():
    live = LiveTarget(SPARK)
    live.close(0.0, 40.0)
    live.close(1.0, 5.0)

    assert live.status(2.0).closed_seconds == 4.0


def served(*begun_at: float, waiting: int = 0, most: int = 0) -> LiveTarget:
    """A target whose answers take 5 s from the first token on, with streams under way and others that wait."""
    live = LiveTarget(SPARK)
    live.slots.seconds, live.slots.count, live.slots._claimed_at = 4.8, most, 0.0
    for number, at in enumerate(begun_at):
        live.open[str(number)] = live.slots.begun[str(number)] = at
    for number in range(len(begun_at), len(begun_at) + waiting):
        live.open[str(number)], live.unanswered[str(number)] = 10.0, 10.0 + live.usual_seconds(100)
    return live


@pytest.mark.parametrize(
    ("live", "wait"),
    [
        (served(10.0, most=1), 4.0),
        (served(10.0, waiting=3, most=1), 19.0),
        (served(10.0, most=2), 0.0),
        (served(10.0, 8.0, most=2), 2.0),
        (served(10.0, waiting=3), 0.8),  # nobody is late yet
    ],
)
def test_the_wait_is_what_the_calls_under_way_still_take(live, wait):
    assert live.status(11.0).wait_seconds == pytest.approx(wait)


def test_calls_that_are_late_while_others_stream_wait_for_slots_as_it_seems():
    live = served(8.0, waiting=3)

    assert live.status(12.0).wait_seconds == pytest.approx(2.0 + 3 * 5.0)
    assert [live.wait_left(str(number), 12.0) for number in (0, 1, 3)] == pytest.approx([0.0, 2.0, 12.0])


def test_calls_that_are_late_where_more_were_seen_at_once_wait_for_something_else():
    live = served(8.0, waiting=3)
    live.slots._seen, live.slots._seen_at = 4, 0.0

    assert live.status(12.0).wait_seconds == pytest.approx(1.8)
    assert live.wait_left("1", 12.0) == 0.0


def test_a_call_that_may_write_only_a_little_is_soon_over():
    live = served(10.0, most=1)
    live.asked["0"] = ask(max_tokens=1_500)

    assert live.status(10.0).wait_seconds == pytest.approx(1.5)


def test_what_is_long_known_is_doubted_until_a_call_waits_again():
    live, waited_for = served(398.0, most=1), served(398.0, waiting=1, most=1)

    assert live.status(400.0).wait_seconds == 0.0
    assert waited_for.status(400.0).wait_seconds > 5.0


def test_a_call_that_waited_for_a_slot_leaves_no_queue():
    live = served(0.0, waiting=1, most=1)
    live.open["1"], live.unanswered["1"] = 1.0, 1.2
    live.open.pop("0")
    live.slots.end("0", 9.0)

    assert not live.begin("1", 1.0, 9.1)
    assert live.lateness.seconds == 0.0


def test_another_model_under_the_same_name_has_slots_of_its_own():
    same, other = served(0.0, most=1), served(0.0, most=1)
    same.follow(make_target(window_tokens=9_000))
    other.follow(make_target(model="another"))

    assert (same.slots.count, other.slots.count) == (1, 0)
    assert (same.status(1.0).wait_seconds > 0, other.status(1.0).wait_seconds) == (True, 0.0)
    other.asked["0"] = ask()
    other.end("0", 2.0)
    assert other.slots.seconds == 0.0
