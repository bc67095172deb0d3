"""What the work that followed says of a turn."""

import pytest

from router.lab.past import PastTurn, Scribe, Size, size_of_turn


def turn(calls: int = 0, edits: int = 0, **more) -> PastTurn:
    return PastTurn("x", calls=("Bash",) * calls, edits=edits, **{"was_answered": True, **more})


@pytest.mark.parametrize(
    ("past", "size"),
    [
        (turn(0, 0), Size.QUICK),
        (turn(4, 2), Size.QUICK),
        (turn(5, 2), Size.MIDDLE),
        (turn(4, 3), Size.MIDDLE),
        (turn(11, 5), Size.MIDDLE),
        (turn(12, 0), Size.LONG),
        (turn(6, 6), Size.LONG),
        (turn(1, 0, was_asked_again=True), Size.LONG),
        (turn(1, 0, was_interrupted=True), None),
        (turn(12, 0, was_interrupted=True), Size.LONG),
        (turn(0, 0, was_answered=False), None),
    ],
)
def test_a_turn_is_what_the_work_on_it_says(past, size):
    assert size_of_turn(past) is size


def test_work_before_anyone_asked_is_nobodys():
    scribe = Scribe("s", "codex")
    scribe.call("Bash")
    scribe.interrupt()

    assert scribe.close() is None


def test_the_same_call_told_twice_counts_once():
    scribe = Scribe("s", "claude-code")
    scribe.ask("fix it", 1.0)
    scribe.call("Edit", 2.0, call_id="a")
    scribe.call("Edit", 9.0, call_id="a")

    (past,) = scribe.close().turns
    assert (past.calls, past.edits, past.seconds) == (("Edit",), 1, 1.0)
