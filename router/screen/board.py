"""Which lines may still change and which are final, as text for a terminal.

Changeable lines form the bottom block, redrawn in place. A line leaves it upwards once it is final and nothing above it is
open, or when the block is full. A turn that continues after that is shown again below.
"""

import math
from collections import deque
from collections.abc import Sequence

from router.past.turns import Turn
from router.screen.lines import Layout
from router.screen.text import Style, drop_colours, fit, width_of
from router.telemetry.colour import DIM

_MAX_LINES = 12
_MAX_AT_ONCE = 100
"""Lines written at once: more are unreadable under load, and each takes time."""
_QUIET_SECONDS, _AT_ONCE = 60.0, -math.inf
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"


class Board:
    def __init__(
        self, style: Style, *, is_still: bool = False, is_story: bool = False, quiet_seconds: float | None = None
    ) -> None:
        self._style, self._is_still, self._is_story = style, is_still, is_story
        """A terminal that cannot redraw (`TERM=dumb`) gets each line once, when final."""
        self._quiet_seconds = (_AT_ONCE if is_still else _QUIET_SECONDS) if quiet_seconds is None else quiet_seconds
        """A turn without a call for this long is final: its tools are slow, or it is over."""
        self._block: list[Turn] = []
        self._drawn: list[int] = []
        """Widths of the drawn lines that may change."""
        self._layout: Layout | None = None
        self._caller = ""
        self._has_callers = False
        """Whether there was more than one caller: each line then names its own."""
        self._titles: tuple[str, ...] = ()
        self._notes: deque[str] = deque()
        self._pinned: tuple[str, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether clocks must tick."""
        return any(turn.running for turn in self._block)

    def show(self, turn: Turn) -> None:
        """Add a line, unless it is there."""
        self._has_callers |= bool(turn.caller and self._caller) and turn.caller != self._caller
        self._caller = self._caller or turn.caller
        if all(turn is not shown for shown in self._block):
            for before in self._block if self._is_story else ():
                before.close()  # a story tells turns one after another
            self._block.append(turn)

    def note(self, line: str) -> None:
        """Print above the changeable lines."""
        self._notes.append(line)

    def pin(self, lines: Sequence[str]) -> bool:
        """Keep these lines at the bottom until replaced; without redrawing, print each once. Returns whether they are new."""
        is_news = tuple(lines) != self._pinned
        if is_news and self._is_still:
            self._notes.extend(line for line in lines if line not in self._pinned)
        self._pinned = tuple(lines)
        return is_news

    def start_over(self) -> None:
        """Another program wrote to the terminal: drawn lines can no longer change."""
        self._drawn = []

    def draw(self, now: float, columns: int, rows: int, *, is_last: bool = False) -> str:
        """Text that updates the terminal. With `is_last`, every line is final."""
        layout, above = self._lay_out(columns), self._climb(columns)
        most = max(1, min(_MAX_LINES, rows - 3 - len(self._pinned)))
        if is_last:
            standing, self._block = self._block, []
        else:
            standing = self._take_standing(now, most)
        lines = [*self._notes]
        self._notes.clear()
        if (standing or (self._block and not self._is_still)) and layout.names != self._titles:
            self._titles = layout.names
            lines.append(layout.head())
        if len(standing) > _MAX_AT_ONCE:
            lines.append(f"{self._style.cut} {len(standing) - _MAX_AT_ONCE} earlier turns")
        lines += [line for turn in standing[-_MAX_AT_ONCE:] for line in layout.lines(turn, now)]
        if self._is_still:
            return "".join(f"{line}\r\n" for line in lines)
        changing, hidden = self._lay_out_block(layout, now, most)
        if hidden:
            more = fit(f"{self._style.cut} and {hidden} more running", columns, self._style)
            changing.insert(0, self._style.paint(more, DIM))
        if not is_last:
            changing += self._pinned
        self._drawn = [width_of(drop_colours(line)) for line in changing]
        body = "".join(_end_line(line, columns) for line in [*lines, *changing])
        return f"{_HIDE}\r{above}{body}\x1b[J{_SHOW}"

    def _lay_out(self, columns: int) -> Layout:
        found = self._layout
        if found is None or found.columns != columns or found.names_callers != self._has_callers:
            self._layout = found = Layout(columns, self._style, names_callers=self._has_callers, is_story=self._is_story)
        return found

    def _lay_out_block(self, layout: Layout, now: float, most: int) -> tuple[list[str], int]:
        """Lines of the newest turns, at most so many, and how many turns are left out."""
        lines: list[str] = []
        for place, turn in enumerate(reversed(self._block)):
            of_turn = layout.lines(turn, now)
            if lines and len(lines) + len(of_turn) > most:
                return lines, len(self._block) - place
            lines = [*of_turn, *lines]
        return lines, 0

    def _climb(self, columns: int) -> str:
        """Move to the block's first line; a narrowed terminal has wrapped long lines."""
        rows = sum(max(1, math.ceil(width / columns)) for width in self._drawn)
        return f"\x1b[{rows}A" if rows else ""

    def _take_standing(self, now: float, most: int) -> list[Turn]:
        block, standing = self._block, []
        if self._is_still:
            standing = [turn for turn in block if self._is_final(turn, now)]
            self._block = [turn for turn in block if not self._is_final(turn, now)]
            return standing
        while block and self._is_final(block[0], now):
            standing.append(block.pop(0))
        while len(block) > most and (resting := next((turn for turn in block if not turn.running), None)) is not None:
            block.remove(resting)
            standing.append(resting)
        return standing

    def _is_final(self, turn: Turn, now: float) -> bool:
        return not turn.running and (turn.is_closed or now - turn.last_at >= self._quiet_seconds)


def _end_line(line: str, columns: int) -> str:
    """Erase the rest, unless the line ends in the last column, where some terminals would erase its end."""
    width = width_of(drop_colours(line))
    return f"{line}\r\n" if width and width % columns == 0 else f"{line}\x1b[K\r\n"
