"""Text for a terminal: clients cannot inject escapes, wide characters count as two, and a line is never too long."""

import re
import unicodedata
from dataclasses import dataclass

from router.telemetry.colour import wrap

_ZERO_WIDTH = ("Mn", "Me")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Style:
    """What the terminal can show. Colour adds, it never carries meaning."""

    encoding: str = "utf-8"
    has_colour: bool = False

    @property
    def is_unicode(self) -> bool:
        """Whether it shows more than ASCII."""
        return self.encoding.lower().replace("-", "").startswith("utf")

    @property
    def up(self) -> str:
        """The mark of a turn that was moved up."""
        return "↑" if self.is_unicode else "^"

    @property
    def cut(self) -> str:
        """The mark of something left out, or still to come."""
        return "…" if self.is_unicode else "~"

    @property
    def arrow(self) -> str:
        """Between tokens in and tokens out."""
        return "→" if self.is_unicode else ">"

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour, where there are any."""
        return wrap(text, colour) if self.has_colour else text


def clean(text: str, style: Style) -> str:
    """The text on one line, without escapes, control characters and direction marks."""
    text = " ".join(text.split())
    if not text.isprintable():
        text = "".join([letter if letter.isprintable() else "?" for letter in text])
    if not style.is_unicode and not text.isascii():
        text = text.encode("ascii", "replace").decode()
    return text


def width_of(text: str) -> int:
    """How many columns a clean text takes."""
    if text.isascii():
        return len(text)
    return sum([_width_of(letter) for letter in text])


def _width_of(letter: str) -> int:
    if unicodedata.east_asian_width(letter) in ("W", "F"):
        return 2
    return 0 if unicodedata.category(letter) in _ZERO_WIDTH else 1


def fit(text: str, columns: int, style: Style) -> str:
    """As much of a clean text as there is room for, with a mark where something is left out."""
    if width_of(text) <= columns:
        return text
    room, taken = columns - 1, []
    for letter in text:
        room -= _width_of(letter)
        if room < 0:
            break
        taken.append(letter)
    return "".join(taken).rstrip() + style.cut if columns > 0 else ""


def pad(text: str, columns: int, *, is_right: bool = False) -> str:
    """The text with blanks after it, or before it."""
    blanks = " " * (columns - width_of(text))
    return blanks + text if is_right else text + blanks


def drop_colours(line: str) -> str:
    """A line as wide as it is on a terminal, where `paint` has put colours into it."""
    return _COLOUR.sub("", line) if "\x1b" in line else line


def drop_escapes(text: str) -> str:
    """The text with its lines and blanks as they are, without escapes, control characters and direction marks."""
    if text.isprintable():
        return text
    return "".join([letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text])
