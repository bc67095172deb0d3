"""The terminal itself, and the thread that writes to it."""

import io
import threading

import pytest

from router.screen.terminal import Plain, Terminal, size_of, style_of
from router.telemetry.colour import can_redraw


class Fake(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self, buffer=None, encoding: str = "utf-8", *, is_terminal: bool = True) -> None:
        super().__init__(buffer or io.BytesIO(), encoding)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


class Held(io.BytesIO):
    """A terminal after Ctrl-S: writing waits."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def write(self, data) -> int:
        self.go_on.wait(20)
        return super().write(data)


@pytest.mark.parametrize(
    ("environment", "is_terminal", "redraws", "colour"),
    [
        ({"TERM": "xterm"}, True, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, True, False),
        ({"TERM": "dumb"}, True, False, False),
        ({"TERM": "xterm"}, False, False, False),
        ({}, True, True, True),
    ],
)
def test_what_a_terminal_can_show_follows_from_its_environment(environment, is_terminal, redraws, colour):
    stream = Fake(is_terminal=is_terminal)

    assert can_redraw(stream, environment) is redraws
    assert style_of(stream, environment).has_colour is colour


def test_a_terminal_without_utf_8_is_known():
    assert not style_of(Fake(encoding="latin-1"), {}).is_unicode
    assert style_of(Fake(), {}).is_unicode


def test_a_stream_without_a_size_has_the_usual_one():
    assert size_of(Fake()) == (80, 24)


def test_what_is_given_is_written_and_what_cannot_be_encoded_is_replaced():
    stream = Fake(encoding="ascii")
    terminal = Terminal(stream)

    terminal.close("höre\r\n")

    assert stream.buffer.getvalue() == b"h?re\r\n"


def test_a_terminal_that_is_held_holds_up_nobody():
    held = Held()
    terminal = Terminal(Fake(held))

    terminal.give("one")
    assert terminal.is_busy

    held.go_on.set()
    terminal.close(" two")
    assert held.getvalue() == b"one two"
    assert not terminal.is_busy


def test_a_terminal_that_is_gone_raises_nothing():
    stream = Fake()
    stream.buffer.close()

    Terminal(stream).close("x")


def test_what_is_not_a_terminal_gets_lines_as_a_file_has_them():
    stream = io.StringIO()
    plain = Plain(stream)
    plain.give("one\r\ntwo\r\n")
    plain.close("three\r\n")

    assert stream.getvalue() == "one\ntwo\nthree\n"
    assert (plain.size, plain.is_busy) == ((80, 24), False)
