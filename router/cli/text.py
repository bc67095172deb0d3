"""Safe terminal text: no injected escapes, wide characters count as two, lines fit."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from router.telemetry.colour import has_colour, wrap

_ZERO_WIDTH = ("Mn", "Me")


@dataclass(frozen=True, slots=True)
class Style:
    """What the terminal can show. Colour never carries meaning."""

    encoding: str = "utf-8"
    has_colour: bool = False

    @property
    def is_unicode(self) -> bool:
        return self.encoding.lower().replace("-", "").startswith("utf")

    @property
    def up(self) -> str:
        """Marks a turn that was moved up."""
        return "↑" if self.is_unicode else "^"

    @property
    def cut(self) -> str:
        """Marks omitted text."""
        return "…" if self.is_unicode else "~"

    @property
    def arrow(self) -> str:
        """Between tokens in and tokens out."""
        return "→" if self.is_unicode else ">"

    def paint(self, text: str, colour: str) -> str:
        return wrap(text, colour) if self.has_colour else text


def style_of(stream: TextIO, environment: Mapping[str, str]) -> Style:
    return Style(stream.encoding or "ascii", has_colour(stream, environment))


def clean(text: str, style: Style) -> str:
    """One line without escapes, control characters and direction marks."""
    text = " ".join(text.split())
    if not text.isprintable():
        text = "".join([letter if letter.isprintable() else "?" for letter in text])
    if not style.is_unicode and not text.isascii():
        text = text.encode("ascii", "replace").decode()
    return text


def width_of(text: str) -> int:
    """Columns of a clean text."""
    if text.isascii():
        return len(text)
    return sum([_width_of(letter) for letter in text])


def _width_of(letter: str) -> int:
    if unicodedata.east_asian_width(letter) in ("W", "F"):
        return 2
    return 0 if unicodedata.category(letter) in _ZERO_WIDTH else 1


def fit(text: str, columns: int, style: Style) -> str:
    """Cut a clean text to the columns, with a mark."""
    if width_of(text) <= columns:
        return text
    return _take(text, columns - 1).rstrip() + style.cut if columns > 0 else ""


def fold(text: str, columns: int, indent: str = "") -> list[str]:
    """Break a clean text into lines between words, so that nothing is cut; all but the first are indented."""
    columns, lines = max(columns, len(indent) + 2), [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1].strip() else lines[-1] + word
        if lines[-1].strip() and width_of(joined) > columns:
            joined = indent + word
            lines.append("")
        while width_of(joined) > columns:
            head = _take(joined, columns)
            lines[-1], joined = head, indent + joined[len(head) :]
            lines.append("")
        lines[-1] = joined
    return lines


def _take(text: str, columns: int) -> str:
    """As much of a text as fits."""
    taken = []
    for letter in text:
        columns -= _width_of(letter)
        if columns < 0:
            break
        taken.append(letter)
    return "".join(taken)


def pad(text: str, columns: int, *, is_right: bool = False) -> str:
    blanks = " " * (columns - width_of(text))
    return blanks + text if is_right else text + blanks


def drop_escapes(text: str) -> str:
    """Remove escapes, control characters and direction marks, but keep lines and blanks."""
    if text.isprintable():
        return text
    return "".join([letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text])
