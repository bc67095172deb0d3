"""One writer for every table: aligned text for a person, or Markdown."""

import os
import sys
from collections.abc import Collection, Sequence

from router.screen.figures import UNKNOWN
from router.screen.terminal import size_of, style_of
from router.screen.text import Style, clean, pad, width_of
from router.telemetry.colour import DIM

_GAP = "  "
_UNCUT = 1_000
"""The width without a terminal: a program that reads lines wants all columns."""


def style_here() -> Style:
    """What standard output can show."""
    return style_of(sys.stdout, os.environ)


def cell(value: float | None) -> str:
    """A share or a score."""
    return UNKNOWN if value is None else f"{value:.3f}"


def columns_here() -> int:
    """How wide a line on standard output may be."""
    return size_of(sys.stdout)[0] if sys.stdout.isatty() else _UNCUT


def write_table(titles: Sequence[str], rows: Sequence[Sequence[str]], style: Style, *, left: Collection[str] = ()) -> list[str]:
    """Lines of text. The columns of these titles are aligned left, as is the first; the others right."""
    cells = [[clean(cell, style) for cell in row] for row in (titles, *rows)]
    widths = [max(width_of(row[index]) for row in cells) for index in range(len(titles))]
    columns = [(width, _is_right(index, title, left)) for index, (title, width) in enumerate(zip(titles, widths, strict=True))]
    padded = ([pad(cell, width, is_right=right) for cell, (width, right) in zip(row, columns, strict=True)] for row in cells)
    head, *lines = (_GAP.join(row).rstrip() for row in padded)
    return [style.paint(head, DIM), *lines]


def write_lines(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, is_markdown: bool, left: Collection[str] = ()
) -> list[str]:
    """A table for standard output, in the form that was asked for."""
    return write_markdown(titles, rows, left=left) if is_markdown else write_table(titles, rows, style_here(), left=left)


def write_markdown(titles: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[str] = ()) -> list[str]:
    """The same as a table of a Markdown page."""
    style = Style()
    marks = ["---:" if _is_right(index, title, left) else "---" for index, title in enumerate(titles)]
    body = [[_escape(clean(cell, style)) for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (list(titles), marks, *body)]


def _escape(text: str) -> str:
    """The text as a cell: neither the end of one, nor HTML that a page would run."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _is_right(index: int, title: str, left: Collection[str]) -> bool:
    return index > 0 and title not in left
