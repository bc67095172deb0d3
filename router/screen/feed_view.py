"""A router's feed → turns on a screen, for `tandem top`. Events are given."""

import time
from collections import deque
from collections.abc import Callable

import msgspec

from router.contract.entry import LINE_FIELDS, read_line
from router.contract.notices import Notice
from router.contract.request import Json, JsonObject, objects_in
from router.past.turns import Begun, Turn
from router.screen.around import read_jobs, write_savings, write_targets
from router.screen.figures import plural
from router.screen.screen import Output, Screen
from router.screen.text import Style

STATS, SAVINGS = "stats", "savings"
SAVINGS_SPAN = "24h"
_REMEMBERED = 2_000
"""Finished requests remembered: a router may send them again after a lost connection."""
_QUIET_SECONDS = 10.0
"""If lines cannot be redrawn, a turn is printed after this long without a call."""


class FeedView:
    """Takes events in order, and the answers of `/tandem/stats` and `/tandem/savings`."""

    def __init__(self, output: Output, style: Style, *, is_still: bool = False, clock: Callable[[], float] = time.time) -> None:
        self._style, self._clock, self._is_still = style, clock, is_still
        quiet = _QUIET_SECONDS if is_still else None
        self._screen = Screen(output, style, is_still=is_still, quiet_seconds=quiet, wall=self.time_there)
        self._output = output
        self._begun: set[str] = set()
        self._over: deque[str] = deque(maxlen=_REMEMBERED)
        self._ahead_seconds = 0.0
        self._notices: tuple[Notice, ...] = ()
        self._gauges: dict[str, list[str]] = {}
        self._problem = ""
        self._size = (0, 0)
        self._has_news = True

    def time_there(self) -> float:
        return self._clock() + self._ahead_seconds

    def note(self, text: str) -> None:
        """Print above the changeable lines."""
        self._screen.note(text)

    def take(self, event: str, data: JsonObject) -> None:
        """Take an event; `draw` shows it."""
        self._has_news = True
        if event == STATS:
            self._gauges |= {"targets": write_targets(data), "jobs": read_jobs(data)}
        elif event == SAVINGS:
            self._gauges["savings"] = write_savings(data, SAVINGS_SPAN)
        elif event in ("hello", "batch"):
            self._problem = ""
            self._take_batch(event, data)

    def lose(self, problem: str) -> None:
        """The connection is lost, so running calls are unknown."""
        self._problem, self._has_news = problem, True

    def draw(self, *, is_last: bool = False) -> None:
        """Update the output; on a terminal only after a change."""
        before, self._size = self._size, self._output.size
        is_due = self._has_news or self._screen.is_running or self._size != before
        if not self._is_still and not is_due and not is_last:
            return
        self._has_news = False
        lines = [line for name in ("targets", "savings", "jobs") for line in self._gauges.get(name, ())]
        self._screen.pin(lines, self._notices, self._problem)
        self._screen.draw(is_last=is_last)

    def _take_batch(self, event: str, data: JsonObject) -> None:
        if event == "hello":
            there = data.get("now")
            self._ahead_seconds = there - self._clock() if isinstance(there, (int, float)) else 0.0
            self._screen.keep_running({str(call.get("id")) for call in objects_in(data.get("running"))})
        for call in objects_in(data.get("begun" if event == "batch" else "running")):
            self._begin(call)
        for field, words in (("missed", "missed here"), ("more", "not shown")):
            if isinstance(count := data.get(field), int) and count:
                self._screen.note(f"{self._style.cut} {plural(count, 'call')} {words}")
        for row in objects_in(data.get("rows")):
            if row.get("id") not in self._over:
                self._end(row)
        if (notices := data.get("notices")) is not None:
            self._notices = tuple(_read_notices(notices))
        self._screen.forget()

    def _begin(self, call: JsonObject) -> None:
        name, at = call.get("id"), call.get("at")
        if not isinstance(name, str) or not isinstance(at, (int, float)) or name in self._begun or name in self._over:
            return
        kind, tier, because, caller, session, client = (
            str(call.get(field) or "") for field in ("turn_kind", "tier", "because", "caller", "session", "client")
        )
        self._begun.add(name)
        job = str(call.get("job") or "")
        turn = self._screen.begin(Begun(name, float(at), kind, tier, because, caller, session, client, job=job))
        turn.place = str(call.get("replica") or "")

    def _end(self, row: JsonObject) -> None:
        line = read_line(map(row.get, LINE_FIELDS))
        if line is None:
            return  # from an incompatible router

        def complete(turn: Turn) -> None:
            turn.place = str(row.get("replica") or "")
            if isinstance(words := row.get("words"), str) and turn.calls <= 1:
                turn.words = words

        self._over.append(line.id)
        if line.id in self._begun:
            self._begun.discard(line.id)
            self._screen.end(line, complete=complete)
        else:
            self._screen.replay(line, complete)


def _read_notices(value: Json) -> list[Notice]:
    found = []
    for item in objects_in(value):
        try:
            found.append(msgspec.convert(item, Notice))
        except msgspec.ValidationError:
            continue  # unknown to this version
    return found
