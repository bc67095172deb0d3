"""The reading of a running turn's counts."""

import statistics

import pytest

from router.contract.rescue import SHIPPED, measure_unevenness


@pytest.mark.parametrize("said", [[100] * 8, [0, 0, 0, 900], [3, 1, 4, 1, 5]])
def test_unevenness_is_the_spread_of_what_was_written_by_its_mean(said):
    found = measure_unevenness(len(said), sum(said), sum(chars * chars for chars in said))

    assert found == pytest.approx(statistics.pstdev(said) / (statistics.mean(said) + 50))


def test_without_calls_nothing_is_uneven():
    assert measure_unevenness(0, 0, 0) == 0.0


def test_a_talkative_agent_is_no_more_uneven_than_a_terse_one():
    terse, talkative = [0, 300, 0, 300], [0, 3_000, 0, 3_000]

    found = [measure_unevenness(4, sum(said), sum(chars * chars for chars in said)) for said in (terse, talkative)]

    assert found[1] == pytest.approx(found[0], abs=0.3)


def test_more_edits_and_more_uneven_writing_look_worse():
    assert SHIPPED.read(20, 2.0) > SHIPPED.read(5, 2.0) > SHIPPED.read(5, 1.0)


def test_an_agent_that_writes_nothing_is_read_by_its_edits_alone():
    assert SHIPPED.read(5, 0.0) == SHIPPED.read(5, SHIPPED.usual_unevenness)


def test_counts_below_the_alarm_and_turns_of_few_calls_prove_nothing():
    loud = SHIPPED.read(12, 2.4)

    assert SHIPPED.hear(20, 12, 2.4) == loud >= SHIPPED.alarm
    assert SHIPPED.hear(19, 12, 2.4) == SHIPPED.hear(20, 5, 1.6) == 0.0
    assert SHIPPED.read(5, 1.6) > 0.0
