"""One target as its calls show it."""

from router.dispatch.live.target import LiveTarget
from tests.tools.values import make_target

SPARK = make_target()


def called(*opened_at: float) -> LiveTarget:
    """A target with streams under way."""
    live = LiveTarget(SPARK)
    for number, at in enumerate(opened_at):
        live.open[str(number)] = at
        live.unanswered[str(number)] = at + live.usual_seconds(100)
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
