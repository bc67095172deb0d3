"""Which lines may change and which stand, seen through a terminal."""

import math

from router.contract.words import Outcome, Tier
from router.past.turns import Turn
from router.screen.board import Board
from router.screen.text import Style
from tests.tools.terminal import Emulator

NOW = 1_000.0


class Shown:
    """A board and a terminal that it is drawn on."""

    def __init__(self, columns: int = 80, rows: int = 24, style: Style | None = None, **more) -> None:
        self.board, self.terminal = Board(style or Style(), **more), Emulator(columns, rows)

    def draw(self, now: float = NOW, **more) -> list[str]:
        text = self.board.draw(now, self.terminal.columns, self.terminal.rows, **more)
        self.terminal.feed(text)
        return [line for line in self.terminal.text() if line]


def make_turn(name: str, *, is_running: bool = True, is_closed: bool = False) -> Turn:
    turn = Turn(NOW, name, "", 1, tier=Tier.FAST, calls=1, is_closed=is_closed, last_at=NOW)
    if is_running:
        turn.running[name] = NOW
    return turn


def clients(lines: list[str]) -> list[str]:
    return [line.split()[1] for line in lines if line[0].isdigit()]


def test_a_running_line_is_drawn_anew_in_place():
    shown = Shown()
    turn = make_turn("codex")
    shown.board.show(turn)
    shown.draw(NOW + 1.0)

    lines = shown.draw(NOW + 2.25)

    assert len(lines) == 2
    assert "2.2s   running" in lines[1]


def test_a_line_that_ended_stands_above_one_that_begins():
    shown = Shown()
    first = make_turn("one", is_running=False, is_closed=True)
    shown.board.show(first)
    shown.draw()
    shown.board.show(make_turn("two"))

    assert clients(shown.draw()) == ["one", "two"]
    assert clients(shown.draw(NOW + 9)) == ["one", "two"]


def test_several_turns_keep_their_lines_whichever_ends_first():
    shown = Shown()
    turns = [make_turn(name) for name in ("one", "two", "three")]
    for turn in turns:
        shown.board.show(turn)
    shown.draw()
    turns[1].running.clear()
    turns[1].is_closed = True

    assert clients(shown.draw()) == ["one", "two", "three"]
    turns[0].running.clear()
    turns[0].is_closed = True
    assert clients(shown.draw()) == ["one", "two", "three"]


def test_a_warning_comes_above_the_running_lines_and_tears_none():
    shown = Shown()
    shown.board.show(make_turn("codex"))
    shown.draw()
    shown.board.note("a target was skipped " * 8)

    lines = shown.draw()

    assert lines[1].startswith("a target was skipped")
    assert lines[-1].split()[1] == "codex"
    assert len([line for line in lines if "running" in line]) == 1


def test_a_turn_that_goes_on_after_its_line_stood_is_shown_again():
    shown = Shown()
    turn = make_turn("codex", is_running=False)
    shown.board.show(turn)
    shown.draw(NOW + 120)
    assert not shown.board.is_running

    turn.running["again"] = NOW + 130
    shown.board.show(turn)

    assert clients(shown.draw(NOW + 131)) == ["codex", "codex"]


def test_more_turns_than_fit_are_counted():
    shown = Shown(rows=8)
    for number in range(9):
        shown.board.show(make_turn(f"c{number}"))

    lines = shown.draw()

    assert lines[1] == "… and 4 more running"
    assert clients(lines) == ["c4", "c5", "c6", "c7", "c8"]


def test_a_full_block_lets_go_of_what_rests():
    shown = Shown(rows=6)
    for number in range(6):
        shown.board.show(make_turn(f"c{number}", is_running=number % 2 == 0))

    assert clients(shown.draw()) == ["c1", "c3", "c5", "c0", "c2", "c4"]


def test_a_wider_terminal_gets_its_titles_again():
    shown = Shown(columns=80)
    shown.board.show(make_turn("codex"))
    shown.draw()
    shown.terminal.columns = 140

    lines = shown.draw()

    assert [line.split()[-1] for line in lines if line.startswith("time")] == ["why", "why"]
    assert clients(lines) == ["codex"]


def test_a_narrower_terminal_has_broken_the_lines_that_are_drawn_anew():
    board = Board(Style())
    turn = make_turn("codex")
    turn.why = "long task: " + "x" * 200
    board.show(turn)
    board.draw(NOW, 140, 24)

    assert board.draw(NOW, 60, 24).startswith("\x1b[?25l\r\x1b[3A")


def test_after_another_program_has_written_nothing_of_it_is_touched():
    shown = Shown()
    shown.board.show(make_turn("codex"))
    shown.draw()
    shown.terminal.feed("[1]+  Stopped\r\n$ fg\r\n")
    shown.board.start_over()

    lines = shown.draw()

    assert lines[2:4] == ["[1]+  Stopped", "$ fg"]
    assert clients(lines) == ["codex", "codex"]


def test_at_the_end_every_line_stands():
    shown = Shown()
    turn = make_turn("codex")
    shown.board.show(turn)
    shown.draw()
    turn.running.clear()
    turn.outcome = Outcome.SERVED

    assert clients(shown.draw(is_last=True)) == ["codex"]
    assert not shown.board.is_running


def test_a_terminal_that_cannot_go_back_gets_each_line_once_and_no_escapes():
    board = Board(Style(), is_still=True)
    turn = make_turn("codex")
    board.show(turn)
    assert board.draw(NOW, 80, 24) == ""

    turn.running.clear()
    text = board.draw(NOW, 80, 24)

    assert "\x1b" not in text
    assert [line.split()[1] for line in text.splitlines()] == ["client", "codex"]
    assert board.draw(NOW, 80, 24) == ""


def test_colours_take_no_room():
    shown = Shown(style=Style(has_colour=True))
    for name in ("one", "two"):
        shown.board.show(make_turn(name))

    shown.draw()

    assert clients(shown.draw()) == ["one", "two"]
    assert shown.terminal.strange == []


def test_under_load_the_newest_lines_are_written_and_the_others_counted():
    shown = Shown()
    for number in range(250):
        shown.board.show(make_turn(f"c{number}", is_running=False, is_closed=True))

    lines = shown.draw()

    assert lines[1] == "… 150 earlier turns"
    assert clients(lines) == [f"c{number}" for number in range(150, 250)]


def test_callers_are_named_from_the_second_one_on():
    shown = Shown(140)
    for caller in ("ada", "ada"):
        turn = make_turn("codex", is_running=False, is_closed=True)
        turn.caller = caller
        shown.board.show(turn)
    assert not any("ada" in line for line in shown.draw())
    other = make_turn("codex")
    other.caller = "bob"
    shown.board.show(other)

    lines = shown.draw()

    assert lines[-2].split()[:3] == ["time", "caller", "client"]
    assert lines[-1].split()[1:3] == ["bob", "codex"]


def test_a_pinned_line_stays_below_all_turns_until_it_is_taken_away():
    shown = Shown()
    shown.board.pin(["! spark fails"])
    shown.board.show(make_turn("one", is_running=False, is_closed=True))
    first = shown.draw()
    shown.board.show(make_turn("two"))
    second = shown.draw()

    shown.board.pin([])

    assert (first[-1], second[-1]) == ("! spark fails", "! spark fails")
    assert clients(second) == ["one", "two"]
    assert "! spark fails" not in shown.draw()


def test_the_last_drawing_has_no_pinned_line():
    shown = Shown()
    shown.board.pin(["! spark fails"])
    shown.draw()

    assert shown.draw(is_last=True) == []


def test_the_same_line_is_not_news_when_it_is_pinned_again():
    board = Board(Style())

    assert [board.pin(["a"]), board.pin(["a"]), board.pin([])] == [True, False, True]


def test_a_terminal_that_cannot_redraw_shows_a_pinned_line_once():
    shown = Shown(is_still=True)
    for lines in (["a"], ["a"], ["a", "b"]):
        shown.board.pin(lines)
        shown.draw()

    assert shown.draw() == ["a", "b"]


def test_in_a_story_a_turn_is_final_when_the_next_one_begins():
    board = Board(Style(), is_still=True, is_story=True, quiet_seconds=math.inf)
    first, second = (Turn(0.0, "codex", name, 1, tier="fast", calls=1, why=name) for name in ("one", "two"))
    board.show(first)
    assert board.draw(1.0, 80, 24) == ""

    board.show(second)
    told = board.draw(1.0, 80, 24)

    assert ("one" in told, "two" in told) == (True, False)
    assert "two" in board.draw(1.0, 80, 24, is_last=True)


def test_turns_of_several_lines_take_no_more_of_the_terminal_than_it_has():
    shown = Shown(columns=80)
    for number in range(12):
        turn = make_turn(f"c{number}")
        turn.why, turn.running = "a target failed, so that another one answers this turn", {"x": NOW}
        shown.board.show(turn)

    lines = shown.draw()

    assert len(lines) < 24
    assert any(line.endswith("more running") for line in lines)
    assert shown.draw() == lines
