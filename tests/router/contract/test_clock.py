"""Leaps of the time of day, and pauses of the process."""

from math import inf

import pytest

from router.contract.clock import LEAP_SECONDS, PAUSE_SECONDS, Clock

DAY, TODAY = 86_400.0, 1_790_000_000.0


class Machine:
    """Two clocks that are moved by hand."""

    def __init__(self) -> None:
        self.wall, self.uptime, self.now = TODAY, 5_000.0, 0.0
        self.clock = Clock(lambda: self.wall, lambda: self.uptime, lambda: self.now)

    def run(self, seconds: float) -> float:
        self.wall += seconds
        self.uptime += seconds
        return self.clock.trusted()


@pytest.fixture
def machine():
    return Machine()


def test_the_time_of_day_is_trusted_while_it_runs_with_the_machine(machine):
    assert [machine.run(seconds) for seconds in (0, 1, 8 * 3_600, 40 * DAY)] == pytest.approx(
        [TODAY, TODAY + 1, TODAY + 8 * 3_600 + 1, TODAY + 40 * DAY + 8 * 3_600 + 1]
    )


def test_a_clock_that_is_ahead_for_a_moment_is_not_followed(machine):
    machine.wall += 40 * DAY

    assert machine.run(10) == pytest.approx(TODAY + 10)
    assert machine.clock.leap_seconds == pytest.approx(40 * DAY)
    machine.wall -= 40 * DAY
    assert machine.run(10) == pytest.approx(TODAY + 20)
    assert machine.clock.leap_seconds == 0


def test_a_leap_ahead_is_believed_once_it_has_lasted_for_a_day(machine):
    machine.wall += 40 * DAY
    machine.run(0)

    assert machine.run(DAY - 1) == pytest.approx(TODAY + DAY - 1)
    assert machine.run(1) == pytest.approx(TODAY + 41 * DAY)
    assert machine.run(60) == pytest.approx(TODAY + 41 * DAY + 60)


def test_a_clock_that_is_set_back_is_followed_and_so_is_its_return(machine):
    machine.wall -= 3_600
    assert machine.run(10) == pytest.approx(TODAY - 3_590)

    machine.wall += 3_600

    assert machine.run(10) == pytest.approx(TODAY + 20)


def test_a_router_that_starts_with_its_clock_ahead_deletes_nothing_when_it_is_right_again(machine):
    machine.wall -= 40 * DAY

    assert machine.run(DAY) == machine.run(0) == pytest.approx(TODAY - 39 * DAY)
    assert machine.run(DAY) == pytest.approx(TODAY - 38 * DAY)


def test_a_clock_that_drifts_is_followed(machine):
    for _ in range(100):
        machine.wall += LEAP_SECONDS / 2
        machine.run(60)

    assert machine.clock.trusted() == machine.wall


def test_running_time_leaves_out_what_a_pause_took(machine):
    clock, told = machine.clock, []
    clock.on_pause.append(told.append)
    clock.expect(100.25)

    machine.now = 100
    assert clock.ran(80, 100) == 20
    machine.now = 700.25
    assert clock.ran(80, 700.25) == 20.25
    assert told == [600]
    clock.expect(701.5)
    machine.now = 702
    assert clock.ran(80, 702) == 22
    assert clock.ran(100.25, 700.25) == 0
    assert clock.ran(400, 701) == 0.75
    assert clock.ran(701, 702) == 1
    assert told == [600]


def test_whether_a_pause_fell_into_a_time(machine):
    clock = machine.clock
    clock.expect(100)
    machine.now = 160
    clock.look()

    assert clock.has_paused(90, 200)
    assert clock.has_paused(120, 130)
    assert not clock.has_paused(160, 161)
    assert not clock.has_paused(10, 100)


def test_a_loop_that_is_a_little_late_or_unwatched_was_not_paused(machine):
    clock, told = machine.clock, []
    clock.on_pause.append(told.append)

    for due, now in ((inf, 10 * DAY), (100, 100 + PAUSE_SECONDS / 2), (inf, 20 * DAY)):
        clock.expect(due)
        machine.now = now
        clock.look()

    assert told == []
    assert clock.ran(100, 10 * DAY) == 10 * DAY - 100
