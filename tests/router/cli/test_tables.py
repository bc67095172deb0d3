"""One writer for every table."""

from router.cli.tables import write_markdown, write_table
from router.cli.text import Style

ROWS = [["codex", "12", "quick"], ["修正", "3", "a|b\x1b"]]


def test_text_is_aligned_by_columns_and_not_by_characters():
    assert write_table(("client", "turns", "why"), ROWS, Style(), left=("why",)) == [
        "client  turns  why",
        "codex      12  quick",
        "修正        3  a|b?",
    ]


def test_markdown_keeps_its_columns_whatever_a_cell_holds():
    assert write_markdown(("client", "turns", "why"), ROWS, left=("why",)) == [
        "| client | turns | why |",
        "| --- | ---: | --- |",
        "| codex | 12 | quick |",
        "| 修正 | 3 | a\\|b? |",
    ]


def test_a_terminal_without_unicode_gets_ascii():
    assert write_table(("x",), [["ö"]], Style("ascii")) == ["x", "?"]
