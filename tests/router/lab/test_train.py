"""Making log-odds honest: what a calibration does with scores that are good, useless or the wrong way round."""

import math

import pytest

from router.contract.signals import History
from router.lab.items import Item
from router.lab.train import Row, calibrate
from router.sense.features import read_features

FEATURES = read_features("go on", History(), True)


def row(number: int, *, is_long: bool) -> Row:
    item = Item("agent_session", f"repo-{number % 7}", "go on", is_long, True, True, 0, (), (), "")
    return Row(item, FEATURES, FEATURES)


def rows_of(share: float, count: int = 400) -> list[Row]:
    return [row(number, is_long=number % 100 < share * 100) for number in range(count)]


def test_scores_that_are_honest_stay_as_they_are():
    rows = [row(number, is_long=number % 10 < long) for long in (2, 8) for number in range(400)]
    odds = [math.log(long / (10 - long)) for long in (2, 8) for _ in range(400)]

    assert calibrate(odds, rows) == pytest.approx((1.0, 0.0), abs=0.05)


@pytest.mark.parametrize("mean", [-3.0, 0.0, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.49])
def test_scores_that_order_turns_the_wrong_way_say_how_many_are_long_and_no_more(mean, share):
    rows = rows_of(share)
    odds = [mean - (0.4 if each.item.is_long else 0.0) for each in rows]

    slope, offset = calibrate(odds, rows)

    assert slope == 0.0
    assert 1 / (1 + math.exp(-offset)) == pytest.approx(share, abs=0.02)
