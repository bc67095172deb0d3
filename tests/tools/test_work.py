"""A quadratic loop is told from a linear one by CPU time, whatever else the machine does."""

import time

from tests.tools.work import cost_ratio, cpu_seconds


def count(steps: int) -> None:
    for _ in range(steps):
        pass


def test_eight_times_the_input_costs_a_linear_loop_about_eight_times_and_a_quadratic_one_far_more():
    assert 3 < cost_ratio(lambda: count(320_000), lambda: count(40_000)) < 24
    assert cost_ratio(lambda: count(800**2), lambda: count(100**2)) > 24


def test_waiting_is_not_work():
    assert cpu_seconds(lambda: time.sleep(0.02), repeats=3) < 0.01
