"""Colour on terminals alone, and never against `NO_COLOR`: for every command.

Colour adds to the words and never replaces them.
"""

import os
from collections.abc import Mapping
from typing import TextIO

from router.contract.words import Tier

RED, GREEN, YELLOW, BLUE = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[34m"
BOLD, DIM, OFF = "\x1b[1m", "\x1b[2m", "\x1b[0m"
CLEAR_LINE = "\r\x1b[K"
TIER_COLOURS: Mapping[str, str] = {Tier.FAST: GREEN, Tier.DEEP: BLUE}


def can_redraw(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether there is a terminal on which lines can be redrawn in place."""
    return stream.isatty() and environment.get("TERM", "") != "dumb"


def has_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    return can_redraw(stream, environment) and not environment.get("NO_COLOR")


def wrap(text: str, colour: str) -> str:
    """The text in a colour, if both are there."""
    return f"{colour}{text}{OFF}" if text and colour else text


def paint(text: str, colour: str, stream: TextIO) -> str:
    return wrap(text, colour) if has_colour(stream) else text


def paint_tier(tier: str, stream: TextIO) -> str:
    """A tier in its own colour: the same everywhere."""
    return paint(tier, TIER_COLOURS.get(tier.strip(), BOLD), stream)
