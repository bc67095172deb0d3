import io

import pytest

from router.telemetry.colour import RED, has_colour, paint, paint_tier


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_gets_colour_and_nothing_else_does():
    assert paint("x", RED, Terminal()) == "\x1b[31mx\x1b[0m"
    assert paint("x", RED, io.StringIO()) == "x"
    assert paint("", RED, Terminal()) == ""


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_is_off_where_the_environment_says_so(monkeypatch, name, value):
    monkeypatch.setenv(name, value)

    assert not has_colour(Terminal())


def test_each_tier_has_its_colour():
    assert paint_tier("fast ", Terminal()) != paint_tier("deep ", Terminal()).replace("deep", "fast")
    assert paint_tier("fast", io.StringIO()) == "fast"
