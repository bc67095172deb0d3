"""What is said of a file that fails, and how often."""

import pytest

from router.stores.sqlite.alarm import OUTAGE, Alarm


class Told:
    """An alarm with a clock of the test's, and what it said."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[tuple[str, int]] = []
        self.alarm = Alarm(lambda *line: self.lines.append(line), lambda: self.now)


@pytest.fixture
def told():
    return Told()


def test_an_outage_is_said_at_once_and_then_once_a_minute_with_what_is_lost(told):
    for second in range(0, 180, 5):
        told.now = second
        told.alarm.sound("OperationalError" if second % 2 else "StoreUnusable", second, OUTAGE)

    assert [lost for _, lost in told.lines] == [0, 60, 120]


def test_an_outage_after_the_file_worked_again_is_said_at_once(told):
    told.alarm.sound("OperationalError", 0, OUTAGE)
    told.alarm.clear()

    told.alarm.sound("OperationalError", 0, OUTAGE)

    assert len(told.lines) == 2


def test_one_kind_of_failure_does_not_silence_another(told):
    for kind, topic in (("OperationalError", OUTAGE), ("IntegrityError", None), ("OverflowError", None)):
        told.alarm.sound(kind, 1, topic)

    assert [kind for kind, _ in told.lines] == ["OperationalError", "IntegrityError", "OverflowError"]


def test_what_was_lost_in_silence_is_said_when_the_minute_is_over(told):
    told.alarm.sound("IntegrityError", 1)
    told.alarm.sound("IntegrityError", 9)

    told.alarm.remind(9)
    told.now = 61
    told.alarm.remind(9)
    told.alarm.remind(9)

    assert told.lines == [("IntegrityError", 1), ("IntegrityError", 9)]


def test_rows_for_which_there_was_no_room_are_said_as_such(told):
    told.alarm.remind(3)

    assert told.lines == [("QueueFull", 3)]


def test_the_last_word_is_said_if_anything_is_left_to_say(told):
    told.alarm.sound("OperationalError", 0, OUTAGE)

    told.alarm.conclude("Closed", 297)
    told.alarm.conclude("Closed", 297)

    assert told.lines == [("OperationalError", 0), ("Closed", 297)]


def test_an_outage_lasts_from_its_first_failure_until_something_is_written(told):
    before = told.alarm.failing
    for second in range(0, 300, 50):
        told.now = second
        told.alarm.sound("OperationalError", 0, OUTAGE)
    told.now = 400.0

    during = told.alarm.failing
    told.alarm.clear()

    assert (before, during, told.alarm.failing) == (None, ("OperationalError", 400.0, True, "OperationalError"), None)


def test_lost_rows_last_until_none_was_lost_for_a_minute(told):
    for second in (10.0, 50.0):
        told.now = second
        told.alarm.sound("QueueFull", 3)
    told.now = 109.0

    assert told.alarm.failing == ("QueueFull", 99.0, False, "QueueFull")
    told.now = 110.0
    assert told.alarm.failing is None
