"""A bar on a terminal, a plain line now and then elsewhere."""

import pytest

from router.cli.progress import Progress


class Screen:
    """Standard error that is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("has_colour", [True, False])
def test_a_bar_is_drawn_on_a_terminal_and_wiped_at_the_end(monkeypatch, has_colour):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not has_colour:
        monkeypatch.setenv("NO_COLOR", "1")

    with Progress("replaying", 10) as progress:
        progress.advance(5)

    assert "replaying" in screen.text
    assert "50%" in screen.text
    assert ("\x1b[32m" in screen.text) is has_colour
    assert screen.text.endswith("\r\x1b[K")


def test_elsewhere_no_bar_is_drawn(capsys):
    with Progress("replaying", 10) as progress:
        progress.advance(5)

    assert capsys.readouterr().err == ""


def test_elsewhere_a_plain_line_is_written_every_ten_seconds(capsys, monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    with Progress("replaying", 200) as progress:
        for now in (105.0, 110.0, 112.0, 121.0):
            progress.note = f"{now:.0f} s"
            progress.advance(50)

    assert capsys.readouterr().err == "replaying: 50%, 110 s\nreplaying: 100%, 121 s\n"


def test_more_than_all_is_all_and_nothing_to_do_is_no_division_by_nought(monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")

    with Progress("replaying", 0) as progress:
        progress.advance(7)

    assert "100%" in screen.text
