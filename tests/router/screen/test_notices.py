"""Troubles as lines."""

from msgspec.structs import replace

from router.contract.notices import Notice, Trouble
from router.screen.figures import clock
from router.screen.notices import write_notices
from router.screen.text import Style, width_of

NOTICE = Notice(Trouble.KEY_REFUSED, "spark", 1_000.0, "spark: its host refuses the API key", "tandem check --live")


def test_a_trouble_is_one_line_with_its_time_and_a_hint():
    assert write_notices([NOTICE], 120, Style()) == [
        f"! spark: its host refuses the API key, since {clock(1_000.0)}; hint: tandem check --live"
    ]


def test_a_line_is_never_wider_than_the_terminal_and_has_no_escapes_of_its_own():
    (line,) = write_notices([replace(NOTICE, text="spark\x1b[2J" + "x" * 99)], 40, Style())

    assert width_of(line) == 40
    assert "\x1b" not in line


def test_of_many_the_newest_are_shown_and_the_others_counted():
    lines = write_notices([replace(NOTICE, text=f"{number}") for number in range(9)], 80, Style())

    assert lines[0] == "! and 5 more problems"
    assert [line[2] for line in lines[1:]] == ["5", "6", "7", "8"]


def test_on_a_terminal_with_colours_it_is_red():
    assert write_notices([NOTICE], 80, Style(has_colour=True))[0].startswith("\x1b[31m! spark")
