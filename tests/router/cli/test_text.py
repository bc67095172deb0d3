"""Text for a terminal."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.cli.text import Style, clean, fit, fold, pad, style_of, width_of
from router.telemetry.colour import RED

PLAIN = Style("ascii")


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("gpt\x1b[2J\x1b]0;owned\x07", "gpt?[2J?]0;owned?"),
        ("a\x9b31mb", "a?31mb"),
        ("a\u202egnp.exe", "a?gnp.exe"),
        ("one\r\ntwo\tthree", "one two three"),
        ("\x00\x7f\u200b", "???"),
    ],
)
def test_nothing_that_a_terminal_would_obey_is_left(hostile, harmless):
    assert clean(hostile, Style()) == harmless


@given(st.text())
def test_a_clean_text_is_printable_and_stays_as_it_is(text):
    once = clean(text, Style())

    assert once.isprintable()
    assert clean(once, Style()) == once


def test_a_terminal_without_unicode_gets_ascii():
    assert clean("größe 修正", PLAIN) == "gr??e ??"
    assert (PLAIN.up, PLAIN.cut, PLAIN.arrow) == ("^", "~", ">")
    assert (Style().up, Style().cut, Style().arrow) == ("↑", "…", "→")


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("修正", 4), ("e\u0301", 1), ("👍", 2), ("ｆ", 2), ("", 0)])
def test_a_wide_character_takes_two_columns_and_an_accent_none(text, width):
    assert width_of(text) == width


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("修正修正", 6, "修正…"),
        ("修正修正", 5, "修正…"),
        ("ab cd", 4, "ab…"),
        ("abc", 0, ""),
    ],
)
def test_what_does_not_fit_is_cut_with_a_mark(text, columns, cut):
    assert fit(text, columns, Style()) == cut


@given(st.text(), st.integers(0, 40))
def test_nothing_is_wider_than_its_room(text, columns):
    assert width_of(fit(clean(text, Style()), columns, Style())) <= columns


def test_blanks_count_columns_and_not_characters():
    assert pad("修", 4) == "修  "
    assert pad("修", 4, is_right=True) == "  修"


def test_colour_is_left_out_where_there_is_none():
    assert Style().paint("x", RED) == "x"
    assert Style(has_colour=True).paint("x", RED) == "\x1b[31mx\x1b[0m"
    assert Style(has_colour=True).paint("x", "") == "x"


@given(st.text(), st.integers(4, 60))
def test_a_folded_text_fits_and_is_all_there(text, columns):
    once = clean(text, Style())
    lines = fold(once, columns, "  ")

    assert all(width_of(line) <= columns for line in lines)
    assert "".join("".join(lines).split()) == "".join(once.split())


def test_a_text_is_folded_between_words_and_its_further_lines_are_indented():
    assert fold("set the key in .env, then reload", 16, "  ") == ["set the key in", "  .env, then", "  reload"]
    assert fold("a-name-that-is-longer-than-a-line", 16, "  ") == ["a-name-that-is-l", "  onger-than-a-l", "  ine"]
    assert fold("", 16) == [""]


@pytest.mark.parametrize(
    ("environment", "is_terminal", "has_colour"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm"}, False, False),
        ({}, True, True),
    ],
)
def test_what_a_terminal_can_show_follows_from_its_environment(monkeypatch, environment, is_terminal, has_colour):
    stream = io.TextIOWrapper(io.BytesIO(), "latin-1")
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)

    assert style_of(stream, environment) == Style("latin-1", has_colour)
    assert not style_of(stream, environment).is_unicode
