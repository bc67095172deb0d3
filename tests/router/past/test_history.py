"""What the work that followed says of a turn."""

from router.past.history import PastTurn, SessionBuilder, Size, size_of_turn


def turn(edits: int = 0, tokens: float = 0, **more) -> PastTurn:
    """A turn that changed so many places and wrote so many tokens, of four characters each."""
    return PastTurn("x", edits=edits, answer_chars=round(4 * tokens), **{"was_answered": True, **more})


def test_a_turn_is_what_the_work_on_it_says(subtests):
    for past, size in [
        (turn(0, 0), Size.QUICK),
        (turn(2, 2_000), Size.QUICK),
        (turn(3, 0), Size.MIDDLE),
        (turn(0, 2_000.25), Size.MIDDLE),
        (turn(5, 5_999), Size.MIDDLE),
        (turn(6, 0), Size.LONG),
        (turn(0, 6_000), Size.LONG),
        (turn(1, 0, was_asked_again=True), Size.LONG),
        (turn(1, 0, was_interrupted=True), None),
        (turn(6, 0, was_interrupted=True), Size.LONG),
        (turn(0, 0, was_answered=False), None),
        (turn(1, 100, calls=("Bash",) * 40), Size.QUICK),
    ]:
        with subtests.test(past=past, size=size):
            assert size_of_turn(past) is size


def test_work_before_anyone_asked_is_nobodys():
    scribe = SessionBuilder("s", "codex")
    scribe.call("Bash")
    scribe.interrupt()

    assert scribe.close() == []


def test_the_same_call_told_twice_counts_once():
    scribe = SessionBuilder("s", "claude-code")
    scribe.ask("fix it", 1.0)
    scribe.call("Edit", 2.0, call_id="a")
    scribe.call("Edit", 9.0, call_id="a")

    ((past,),) = (session.turns for session in scribe.close())
    assert (past.calls, past.edits, past.seconds) == (("Edit",), 1, 1.0)


def test_only_what_the_model_wrote_is_counted_as_its_answer():
    scribe = SessionBuilder("s", "codex")
    scribe.ask("fix it", 1.0)
    scribe.hear(100, is_answer=True)
    scribe.hear(9_000)
    scribe.hear(20, is_answer=True)

    ((past,),) = (session.turns for session in scribe.close())
    assert past.answer_chars == 120


def test_what_was_written_for_one_turn_does_not_count_for_the_next():
    scribe = SessionBuilder("s", "codex")
    scribe.ask("write the parser", 1.0)
    scribe.call("Edit")
    scribe.hear(40_000, is_answer=True)
    scribe.ask("thanks", 2.0)
    scribe.hear(10, is_answer=True)

    ((long, quick),) = (session.turns for session in scribe.close())
    assert (size_of_turn(long), size_of_turn(quick)) == (Size.LONG, Size.QUICK)
    assert (quick.edits, quick.answer_chars) == (0, 10)
