"""Tables as aligned text or Markdown."""

import os
import sys
from collections.abc import Collection, Sequence
from typing import TextIO

from router.cli.figures import UNKNOWN
from router.cli.text import Style, clean, pad, style_of, width_of
from router.telemetry.colour import DIM

_GAP = "  "
_COLUMNS = 80
_UNCUT = 1_000
"""The width without a terminal: programs want all columns."""


def style_here() -> Style:
    return style_of(sys.stdout, os.environ)


def cell(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def columns_here() -> int:
    return columns_of(sys.stdout)


def columns_of(stream: TextIO) -> int:
    """80 on a terminal of unknown width."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS if stream.isatty() else _UNCUT
    except (OSError, ValueError):
        return _COLUMNS


def write_table(titles: Sequence[str], rows: Sequence[Sequence[str]], style: Style, *, left: Collection[str] = ()) -> list[str]:
    """The first column and those in `left` are aligned left, the others right."""
    cells = [[clean(cell, style) for cell in row] for row in (titles, *rows)]
    widths = [max(width_of(row[index]) for row in cells) for index in range(len(titles))]
    columns = [(width, _is_right(index, title, left)) for index, (title, width) in enumerate(zip(titles, widths, strict=True))]
    padded = ([pad(cell, width, is_right=right) for cell, (width, right) in zip(row, columns, strict=True)] for row in cells)
    head, *lines = (_GAP.join(row).rstrip() for row in padded)
    return [style.paint(head, DIM), *lines]


def write_lines(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, is_markdown: bool, left: Collection[str] = ()
) -> list[str]:
    return write_markdown(titles, rows, left=left) if is_markdown else write_table(titles, rows, style_here(), left=left)


def write_markdown(titles: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[str] = ()) -> list[str]:
    style = Style()
    marks = ["---:" if _is_right(index, title, left) else "---" for index, title in enumerate(titles)]
    body = [[_escape(clean(cell, style)) for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (list(titles), marks, *body)]


def _escape(text: str) -> str:
    """Escape cell ends and HTML."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _is_right(index: int, title: str, left: Collection[str]) -> bool:
    return index > 0 and title not in left
