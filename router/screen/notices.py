"""Troubles as lines of a terminal: one each, with what helps, for as long as they last."""

from collections.abc import Sequence

from router.contract.notices import Notice
from router.screen.figures import clock
from router.screen.text import Style, clean, fit
from router.telemetry.colour import RED

_MOST = 4


def write_notices(notices: Sequence[Notice], columns: int, style: Style) -> list[str]:
    """A line for each of the newest, none wider than the terminal."""
    lines = [_write(notice, columns, style) for notice in notices[-_MOST:]]
    if len(notices) > _MOST:
        lines.insert(0, fit(f"! and {len(notices) - _MOST} more problems", columns, style))
    return [style.paint(line, RED) for line in lines]


def _write(notice: Notice, columns: int, style: Style) -> str:
    text = f"! {notice.text}, since {clock(notice.since)}; hint: {notice.hint}"
    return fit(clean(text, style), columns, style)
