"""The picture of the demo: small, self-contained, and drawn from what a terminal showed."""

import importlib.util
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("record_demo", ROOT / "docs" / "record_demo.py")
record_demo = importlib.util.module_from_spec(spec)
sys.modules["record_demo"] = record_demo
spec.loader.exec_module(record_demo)
PICTURE = (ROOT / "docs" / "demo.svg").read_text()


def drawn(*printed: tuple[float, str]) -> list[tuple[str, str, str]]:
    """The words, class and style of every text in the picture of what was printed, below the command."""
    terminal = record_demo.Terminal()
    for at, text in printed:
        terminal.feed(text, at)
    picture = ElementTree.fromstring(record_demo.draw(terminal.lines))
    texts = picture.findall("{http://www.w3.org/2000/svg}text")[1:]
    return [("".join(text.itertext()), text.get("class"), text.get("style")) for text in texts]


def test_the_committed_picture_is_small_and_needs_nothing_else():
    assert len(PICTURE.encode()) < 60_000
    assert "font-face" not in PICTURE
    assert re.findall(r"(?:href|url\(|https?://)(?!www\.w3\.org)", PICTURE.replace("http://www.w3.org/2000/svg", "")) == []
    assert re.search(r"/(?:tmp|home|root|work|Users)/", PICTURE) is None
    assert "127.0.0.1" not in PICTURE


def test_a_line_comes_when_it_was_printed():
    assert drawn((0.0, "> go\r\n"), (3.0, "done\r\n")) == [
        ("> go", None, None),
        ("done", "l", "animation-delay:3.00s"),
    ]


def test_the_wait_before_the_first_turn_is_cut_short():
    assert drawn((0.0, "starting\r\n"), (9.0, "> go\r\n"))[1][2] == "animation-delay:0.80s"


def test_the_first_turns_are_there_from_the_first_frame():
    lines = drawn(*((float(at), f"> {at}\r\n") for at in range(6)))

    assert [style for _, _, style in lines] == [*[None] * 4, "animation-delay:0.80s", "animation-delay:1.80s"]


def test_the_first_frame_of_the_committed_picture_has_turns_of_both_tiers():
    shown = re.findall(r'<text x="\d+" y="\d+">(.*)</text>', PICTURE)

    assert {tier for line in shown for tier in re.findall("FAST|DEEP", line)} == {"FAST", "DEEP"}


def test_spaces_are_kept_where_browsers_no_longer_read_the_attribute_for_them():
    assert "white-space:pre" in PICTURE


def test_what_was_drawn_over_is_shown_for_as_long_as_it_was_there():
    lines = drawn(
        (0.0, "> go\r\n"), (1.0, "\r\x1b[K1 s"), (2.0, "\r\x1b[K2 s"), (2.1, "\r\x1b[K2.1 s"), (3.0, "\r\x1b[Kdone\r\n")
    )

    assert lines[1:] == [
        ("1 s", "t", "animation-delay:1.00s;animation-duration:1.00s"),
        ("2 s", "t", "animation-delay:2.00s;animation-duration:1.00s"),
        ("done", "l", "animation-delay:3.00s"),
    ]


def test_lines_that_are_drawn_again_in_place_come_once_and_change_where_they_differ():
    frames = ("> go\x1b[K\r\n1 s\x1b[K\r\n", "\x1b[?25l\r\x1b[2A> go\x1b[K\r\ndone\x1b[K\r\n\x1b[J")

    assert drawn((0.0, frames[0]), (2.0, frames[1])) == [
        ("> go", None, None),
        ("1 s", "t", "animation-delay:0.00s;animation-duration:2.00s"),
        ("done", "l", "animation-delay:2.00s"),
    ]


def test_colours_become_classes_and_signs_are_escaped():
    terminal = record_demo.Terminal()
    terminal.feed("\x1b[32mfast\x1b[0m a < b\r\n", 0.0)

    assert '<tspan class="f">fast</tspan> a &lt; b</text>' in record_demo.draw(terminal.lines)


def test_a_command_is_recorded_as_it_prints_on_a_terminal():
    script = "import sys; print(sys.stdout.isatty(), end=''); sys.stdout.flush(); print('\\r\\x1b[Kdone →')"
    terminal = record_demo.Terminal()
    for at, text in record_demo.record([sys.executable, "-c", script]):
        terminal.feed(text, at)

    assert terminal.lines[0][-1].text == "done →"
    assert terminal.lines[0][0].text == "True"


def test_a_command_that_fails_leaves_no_picture():
    with pytest.raises(record_demo.subprocess.CalledProcessError):
        list(record_demo.record([sys.executable, "-c", "raise SystemExit(3)"]))
