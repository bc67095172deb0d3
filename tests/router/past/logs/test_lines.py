"""Lines of files that others wrote: whole, broken, or beyond all reason."""

import pytest

from router.past.logs import find_logs, read_logs
from router.past.logs.lines import Tally, read_time
from tests.router.past.logs.written import FORMATS, TURNS, read
from tests.tools.histories import claude_log


def test_a_line_beyond_all_reason_is_passed_over_and_the_rest_is_read(tmp_path):
    text = claude_log(TURNS[:1]) + '{"type": "user", "x": "' + "x" * (33 << 20) + '"}\n' + claude_log(TURNS[1:])

    (session,), tally = read(tmp_path, ("one.jsonl", text))

    assert len(session.turns) == len(TURNS)
    assert tally.broken_lines == 1


def test_every_byte_that_is_read_moves_the_bar(tmp_path):
    (tmp_path / "one.jsonl").write_text(claude_log(TURNS))
    moved: list[int] = []
    tally = Tally(advance=moved.append)

    list(read_logs(find_logs([tmp_path], tally), tally))

    assert sum(moved) == (tmp_path / "one.jsonl").stat().st_size


def test_broken_lines_are_counted_and_cost_nothing_else(tmp_path):
    lines = claude_log(TURNS).splitlines()
    text = "\n".join(["\x00\xff{", *lines[:3], "[1, 2]", *lines[3:], '{"type": "user", "mess'])

    (session,), tally = read(tmp_path, ("one.jsonl", text))

    assert len(session.turns) == len(TURNS)
    assert tally.broken_lines == 3


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60),
        ("1970-01-01 00:01:00", 60),
        (60, 60),
        (60_000_000_000_000, 6e10),
        (1e308, None),
        ("soon", None),
        (True, None),
        (None, None),
    ],
)
def test_times_are_read_whatever_their_form(value, seconds):
    assert read_time(value) == seconds


@pytest.mark.parametrize("name", FORMATS)
def test_a_byte_order_mark_costs_no_line(tmp_path, name):
    file, write = FORMATS[name]

    (session,), tally = read(tmp_path, (file, "\ufeff" + write(TURNS).lstrip()))

    assert len(session.turns) == len(TURNS)
    assert tally.broken_lines == 0
