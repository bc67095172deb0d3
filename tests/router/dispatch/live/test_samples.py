"""A figure that is learned, and holds."""

import pytest

from router.dispatch.live.samples import FADED_SECONDS, Samples

HALF_LIFE = 6 * 3600.0


def seen(*values, at=100.0):
    samples = Samples(10.0)
    for value in values:
        samples.add(value, at)
    return samples


def test_without_a_sample_it_is_as_typical():
    assert (Samples(10.0).current(5.0), Samples(10.0).is_learned) == (10.0, False)


def test_the_middle_of_the_last_fifteen_counts():
    assert seen(20, 22, 100).current(100.0) == 22
    assert seen(*[20] * 40, *[30] * 15).current(100.0) == 30


def test_one_sample_is_what_is_usual_and_holds_over_pauses():
    samples = seen(645)

    assert (samples.current(160.0), samples.usual, samples.is_learned) == (645, 645, True)


def test_a_slow_minute_fades_into_what_the_minutes_before_it_showed():
    samples = Samples(10.0)
    for minute in range(10):
        samples.add(30, minute * 60.0)
    for _ in range(15):
        samples.add(6, 600.0)

    assert samples.current(600.0) == 6
    assert samples.current(610.0) == 18
    assert samples.current(1_000.0) == pytest.approx(30)


def test_a_minute_with_many_samples_counts_for_no_more_than_one_with_a_single_sample():
    samples = Samples(10.0)
    for at, count in ((0.0, 1), (60.0, 1), (120.0, 50)):
        for _ in range(count):
            samples.add(300 if count > 1 else 30, at)

    assert samples.current(1_000.0) == pytest.approx(30)


def test_what_has_changed_for_good_is_usual_after_half_an_hour_of_use():
    samples = Samples(10.0)
    for minute in range(200):
        samples.add(30, minute * 60.0)
    for minute in range(200, 240):
        samples.add(90, minute * 60.0)

    assert samples.current(241 * 60.0) == 90


def test_unseen_it_fades_into_typical_within_hours_and_the_slower_the_oftener_it_was_seen():
    once, often = seen(20), Samples(10.0)
    for minute in range(24):
        often.add(20, 100.0 - minute)
        often.minute_at = float("-inf")
    often.newest_at = 100.0

    once.settle(100.0 + HALF_LIFE)
    often.settle(100.0 + HALF_LIFE)

    assert once.current(100.0 + HALF_LIFE) == 15
    assert often.current(100.0 + HALF_LIFE) > 19.5


def test_what_was_seen_before_a_restart_is_usual_at_once():
    samples = Samples(10.0)
    samples.recall([20, 22, 24], newest_at=50.0)
    samples.settle(50.0)

    assert (samples.current(60.0), samples.usual) == (22, 22)


def test_what_is_forgotten_is_as_typical_again():
    samples = seen(20)
    samples.forget()

    assert (samples.current(100.0), samples.is_learned) == (10.0, False)


@pytest.mark.parametrize(("value", "taken"), [(1e9, 10_000), (0.0, 0.01)])
def test_an_accident_counts_for_no_more_than_a_thousand_times_typical(value, taken):
    assert seen(value).current(100.0) == taken


@pytest.mark.parametrize("value", [1e9, 0.0, 20.0, 1 / 3])
def test_what_was_lately_seen_is_gone_to_the_last_bit_when_it_has_faded(value):
    samples = seen(7.0, value)
    samples.settled = 10.0

    assert samples.current(samples.newest_at + 0.1 * FADED_SECONDS) != 10.0
    assert samples.current(samples.newest_at + FADED_SECONDS) == 10.0
