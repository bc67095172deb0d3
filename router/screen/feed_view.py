"""The feed of a router → turns on a board: what `tandem top` draws. No connection and no clock: events and times are given."""

from collections import deque
from collections.abc import Sequence

import msgspec

from router.contract.entry import Line
from router.contract.notices import Notice
from router.contract.request import Json, JsonObject
from router.screen.board import Board
from router.screen.figures import plural
from router.screen.notices import write_notices
from router.screen.text import Style, clean, fit
from router.screen.turns import Begun, Turn, Turns
from router.telemetry.colour import DIM

_REMEMBERED = 2_000
"""Requests that are known to be over: after a lost connection, a router may send them again."""
_FORGET_SECONDS = 3_600.0


class FeedView:
    """Takes events in the order in which they come."""

    def __init__(self, style: Style, *, is_still: bool = False, quiet_seconds: float | None = None) -> None:
        self.board = Board(style, is_still=is_still, quiet_seconds=quiet_seconds)
        self._style, self._turns = style, Turns()
        self._begun: set[str] = set()
        self._over: deque[str] = deque(maxlen=_REMEMBERED)
        self._ahead_seconds = 0.0
        """How far the router's clock is ahead of ours."""
        self._notices: tuple[Notice, ...] = ()
        self._gauges: tuple[str, ...] = ()
        self._loss = ""

    def time_there(self, now: float) -> float:
        """The router's time of day."""
        return now + self._ahead_seconds

    def take(self, event: str, data: JsonObject, now: float) -> list[JsonObject]:
        """Take an event of the feed. Returns the rows that are new."""
        self._loss = ""
        if event == "hello":
            self._greet(data, now)
        elif event != "batch":
            return []
        for call in _objects(data.get("begun" if event == "batch" else "running")):
            self._begin(call)
        rows = [row for row in _objects(data.get("rows")) if row.get("id") not in self._over]
        for field, words in (("missed", "missed here"), ("more", "not shown")):
            if isinstance(count := data.get(field), int) and count:
                self.board.note(self._style.paint(f"{self._style.cut} {plural(count, 'call')} {words}", DIM))
        for row in rows:
            self._end(row)
        if (notices := data.get("notices")) is not None:
            self._notices = tuple(_read_notices(notices))
        self._turns.forget_before(self.time_there(now) - _FORGET_SECONDS)
        return rows

    def lose(self, reason: str) -> None:
        """The connection is lost: what runs there is not known until there is another."""
        self._loss = reason

    def show_gauges(self, lines: Sequence[str]) -> None:
        """Show these lines between the turns and what is broken."""
        self._gauges = tuple(lines)

    def draw(self, now: float, columns: int, rows: int, *, is_last: bool = False) -> str:
        """The text that brings the terminal up to date."""
        style = self._style
        pinned = [style.paint(fit(clean(line, style), columns, style), DIM) for line in self._gauges]
        pinned += write_notices(self._notices, columns, style)
        if self._loss:
            pinned.append(fit(clean(f"! {self._loss}", style), columns, style))
        self.board.pin(pinned)
        return self.board.draw(self.time_there(now), columns, rows, is_last=is_last)

    def _greet(self, data: JsonObject, now: float) -> None:
        there = data.get("now")
        self._ahead_seconds = there - now if isinstance(there, (int, float)) else 0.0
        running = {str(call.get("id")) for call in _objects(data.get("running"))}
        self._turns.stop_all_but(running)

    def _begin(self, call: JsonObject) -> None:
        name, at = call.get("id"), call.get("at")
        if not isinstance(name, str) or not isinstance(at, (int, float)) or name in self._begun or name in self._over:
            return
        kind, tier, because, caller, session, client = (
            str(call.get(field) or "") for field in ("turn_kind", "tier", "because", "caller", "session", "client")
        )
        self._begun.add(name)
        self.board.show(self._turns.begin(Begun(name, float(at), kind, tier, because, caller, session, client)))

    def _end(self, row: JsonObject) -> None:
        line = read_line(row)
        if line is None:
            return
        self._over.append(line.id)
        is_begun = line.id in self._begun
        self._begun.discard(line.id)
        turn = self._turns.end(line) if is_begun else self._turns.replay(line)
        if turn is not None:
            self._add_words(turn, row.get("words"))
            self.board.show(turn)

    def _add_words(self, turn: Turn, words: Json) -> None:
        if isinstance(words, str) and turn.calls <= 1:
            turn.words = words


def _objects(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read_line(row: JsonObject) -> Line | None:
    """The row as every view has it; None where another version's router left out what is needed."""
    fields = {name: row.get(name) for name in Line.__struct_fields__}
    fields["request_id"] = fields.pop("id")
    try:
        return msgspec.convert(fields, Line, strict=False)  # SQLite's truths are 0 and 1
    except msgspec.ValidationError:
        return None


def _read_notices(value: Json) -> list[Notice]:
    found = []
    for item in _objects(value):
        try:
            found.append(msgspec.convert(item, Notice))
        except msgspec.ValidationError:
            continue  # a kind that another version knows
    return found
