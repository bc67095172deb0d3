"""A figure that is remembered for a while."""

import pytest

from router.dispatch.live.samples import Samples


def seen(*values, at=100.0):
    samples = Samples(10.0)
    for value in values:
        samples.add(value, at)
    return samples


def test_without_a_sample_it_is_as_typical():
    assert Samples(10.0).current(5.0) == 10.0


def test_the_middle_of_the_last_fifteen_counts():
    assert seen(20, 22, 100).current(100.0) == 22
    assert seen(*[20] * 40, *[30] * 15).current(100.0) == 30


def test_it_fades_into_typical_with_a_half_life_of_ten_seconds():
    assert seen(30).current(110.0) == 20
    assert seen(30).current(1_000.0) == pytest.approx(10.0)


@pytest.mark.parametrize(("value", "taken"), [(1e9, 200), (0.0, 0.5)])
def test_an_accident_counts_for_no_more_than_twenty_times_typical(value, taken):
    assert seen(value).current(100.0) == taken
