"""Pages of calls and sessions from the ledger.

A page walks an index from its newest row until it is full or its time is up: a rarely met filter gives a short page with a
cursor. `tests/router/stores/sqlite/test_pages.py` checks the index of each. A walk along the calls of a caller or target skips
the hours that have none.
"""

import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from router.contract.entry import COLUMNS, Line, read_line
from router.contract.past import PageRow, SessionRows, SessionsPage, SessionSums, TurnsAsked
from router.contract.words import PERSONS_KINDS, Outcome, Tier, TurnKind
from router.stores.sqlite.hours import IS_TURN, UNPRICED, find_spans

WITHIN_SECONDS = 0.2
_WALK_SECONDS = 0.1
"""Time a list may search; the rest is for reading the rows found."""
_LOOK_ROWS = 64
_SUMMED_ROWS = 2_000
"""Newest calls summed per session: a script may use one session for years."""
PERSONS = f"({', '.join(repr(str(kind)) for kind in PERSONS_KINDS)})"
_KEPT = "replace(substr(decision, 1, 24), ' ', '')"
_DECIDED = f"CASE WHEN substr({_KEPT}, 7, 8) = ',\"tier\":' THEN substr({_KEPT}, 16, 4) ELSE tier END"
"""The tier decided on; another serves where its targets fail. The JSON starts with version and tier, and parsing all of it is
far slower. Rows before versions count as served."""
_LEADS = ("session", "outcome")
"""Indexed columns that may lead a walk, the rarest first; other filters are checked row by row."""
_SUMMED = ("caller", "target")
"""Columns whose hours are known."""
_NOT_SERVED = f"outcome != '{Outcome.SERVED}'"
"""Phrased exactly as in the partial index, or SQLite does not use it."""
_WALK = "SELECT {columns} FROM entries WHERE {where} ORDER BY at DESC, sequence DESC"
_PLACE = "SELECT at FROM entries WHERE sequence <= ? ORDER BY sequence DESC LIMIT 1"
LINE = f"{', '.join(COLUMNS)}, CASE WHEN json_valid(attempts) THEN json_array_length(attempts) ELSE 1 END"
_ROW = (
    f"SELECT {LINE}, sequence,"  # noqa: S608  fixed names
    " CASE WHEN json_valid(decision) THEN json_extract(decision, '$.decided_by') END,"
    " CASE WHEN json_valid(decision) THEN json_extract(decision, '$.person_text') END FROM entries"
)
_BEFORE = f"""
    SELECT tier FROM entries
    WHERE session = ? AND +caller = ? AND sequence < ? AND turn_kind IN {PERSONS} AND tier IS NOT NULL
    ORDER BY sequence DESC LIMIT 1
"""  # noqa: S608  fixed names
_IS_NEWER = "SELECT 1 FROM entries WHERE session = ? AND +caller = ? AND (+at, sequence) >= (?, ?) LIMIT 1"
_LAST_CALLER = "SELECT caller FROM entries WHERE session = ? ORDER BY sequence DESC LIMIT 1"
_WAYS = f"""
    SELECT caller, session, group_concat(letter, '') FROM (
        SELECT caller, session,
            CASE turn_kind WHEN '{TurnKind.TOOL_LOOP}' THEN '' ELSE '|' END || substr({_DECIDED}, 1, 1) || upper(tier)
            AS letter
        FROM entries WHERE at >= ? AND sequence >= ? AND session IN ({{marks}}) AND turn_kind IN {PERSONS} AND tier IS NOT NULL
        ORDER BY caller, session, sequence
    ) GROUP BY caller, session
"""  # noqa: S608  fixed names
_MOVED = re.compile(r"FASTd[^|]*")
"""A turn that moves from fast to deep at one of its calls, in the letters of `past.turns`."""
_NAMES = """
    SELECT session FROM entries WHERE at >= :since AND +session IS NOT NULL AND (:caller IS NULL OR +caller = :caller)
    ORDER BY at DESC
"""
_SESSIONS = f"""
    SELECT caller, session, max(client), min(at), max(at + duration_ms / 1000), count(*), sum({IS_TURN}),
        sum({IS_TURN} AND tier IS '{Tier.FAST}'), sum({IS_TURN} AND tier IS '{Tier.DEEP}'),
        sum(input_tokens), sum(output_tokens), sum(cost_usd), sum({UNPRICED}),
        sum(duration_ms) / 1000, sum(list_usd)
    FROM entries WHERE at >= ? AND sequence >= ? AND session IN ({{marks}}) AND (? IS NULL OR +caller = ?)
    GROUP BY caller, session
    ORDER BY max(sequence) DESC LIMIT ?
"""  # noqa: S608  fixed names
_OLDER = "SELECT sequence FROM entries WHERE session = ? ORDER BY sequence DESC LIMIT 1 OFFSET ?"
_SESSION = f"{_ROW} WHERE session = ? AND +caller = ? ORDER BY sequence DESC LIMIT ?"


def read_session_page(database: sqlite3.Connection, asked: TurnsAsked) -> SessionsPage:
    walk = Walk(database, asked, ("caller", "session"))
    known, found = set[tuple[str, ...]](), list[SessionSums]()
    for _ in walk:
        if walk.values in known:
            continue
        known.add(walk.values)
        whose, session = walk.values
        if session is not None and not walk.was_before(whose, session):
            found += _sum_up_session(database, session, whose)
        if len(found) >= asked.limit:
            break
    return SessionsPage(found, walk.next)


def read_session(database: sqlite3.Connection, session: str, caller: str | None, limit: int) -> SessionRows | None:
    if caller is None:
        newest = database.execute(_LAST_CALLER, (session,)).fetchone()
        caller = newest[0] if newest is not None else ""
    found = _sum_up_session(database, session, caller)
    if not found:
        return None
    (sums,) = found
    rows = database.execute(_SESSION, (session, caller, limit)).fetchall()[::-1]
    return SessionRows(sums, _in_order(database, rows), sums.calls - len(rows))


def read_sessions(database: sqlite3.Connection, since: float, limit: int, caller: str | None) -> list[SessionSums]:
    names: dict[str, None] = {}
    for (name,) in database.execute(_NAMES, {"since": since, "caller": caller}):
        names[name] = None
        if len(names) >= limit:
            break
    return _sum_up(database, since, [*names], limit, caller=caller)


def _sum_up(
    database: sqlite3.Connection, since: float, names: Sequence[str], limit: int, first: int = 0, caller: str | None = None
) -> list[SessionSums]:
    """Newest first, over rows from `since` and number `first` on."""
    marks = ", ".join("?" * len(names))
    rows = database.execute(_SESSIONS.format(marks=marks), (since, first, *names, caller, caller, limit)).fetchall()
    ways = database.execute(_WAYS.format(marks=marks), (since, first, *names))
    moved = {(of, session): len(_MOVED.findall(way)) for of, session, way in ways}
    return [SessionSums._make((*row[:-1], moved.get(row[:2], 0), False, row[-1])) for row in rows]


def _sum_up_session(database: sqlite3.Connection, session: str, caller: str) -> list[SessionSums]:
    """Other callers may have a session of that name."""
    older = database.execute(_OLDER, (session, _SUMMED_ROWS)).fetchone()
    first, is_partial = (older[0] + 1, True) if older is not None else (0, False)
    found = _sum_up(database, 0.0, [session], -1, first)
    return [sums._replace(is_partial=is_partial) for sums in found if sums.caller == caller]


def find_filters(asked: TurnsAsked) -> dict[str, str]:
    names = (*_LEADS, *_SUMMED, "tier", "client")
    return {name: value for name in names if (value := getattr(asked, name)) is not None}


def find_lead(filters: Mapping[str, str]) -> str | None:
    return next((name for name in _LEADS if name in filters and filters[name] != Outcome.SERVED), None)


def write_walk(filters: Mapping[str, str], columns: tuple[str, ...], *, has_place: bool) -> tuple[str, tuple[str, ...]]:
    """A walk along one filter's index, and the filters left to check row by row."""
    lead = find_lead(filters)
    rest = tuple(name for name in filters if name != lead)
    where = ["at >= ?", *([f"{lead} = ?"] if lead is not None else [])]
    if lead == "outcome":
        where.append(_NOT_SERVED)
    if has_place:
        where.append("(at, sequence) < (?, ?)")
    return _WALK.format(columns=", ".join(("sequence", *rest, *columns)), where=" AND ".join(where)), rest


class Walk:
    """Numbers of matching rows, newest first, until time is up. `next` is the cursor."""

    def __init__(self, database: sqlite3.Connection, asked: TurnsAsked, columns: tuple[str, ...] = ()) -> None:
        filters, before = find_filters(asked), asked.before
        self._database = database
        self._place = self._find_place(before) if before is not None else None
        self._is_over = before is not None and self._place is None
        ends = self._place or ((asked.until, -1) if asked.until is not None else ())
        query, rest = write_walk(filters, columns, has_place=bool(ends))
        led = tuple(value for name, value in filters.items() if name not in rest)
        summed = {name: value for name, value in filters.items() if name in _SUMMED}
        if summed and find_lead(filters) is None:
            by_hours, _ = write_walk(filters, columns, has_place=True)
            spans = find_spans(database, summed, asked.since, ends[0] if ends else None)
            self._rows: Iterable[tuple[Any, ...]] = chain.from_iterable(
                database.execute(by_hours if (stops := _earlier(until, ends)) else query, (since, *stops))
                for since, until in spans
            )
        else:
            self._rows = database.execute(query, (asked.since, *led, *ends))
        self._wanted = tuple(filters[name] for name in rest)
        self.values: tuple[str, ...] = ()
        self.next: int | None = None

    def _find_place(self, before: int) -> tuple[float, int] | None:
        """The position of a row number in the walk's order, even if the row is gone."""
        found = self._database.execute(_PLACE, (before,)).fetchone()
        return (found[0], before) if found is not None else None

    def __iter__(self) -> Iterator[int]:
        if self._is_over:
            return
        deadline, filters = time.monotonic() + _WALK_SECONDS, len(self._wanted)
        for looked_at, (number, *values) in enumerate(self._rows):
            self.next = number
            if tuple(values[:filters]) == self._wanted:
                self.values = tuple(values[filters:])
                yield number
            elif looked_at % _LOOK_ROWS:
                continue
            if time.monotonic() > deadline:
                return
        self.next = None

    def was_before(self, caller: str, session: str) -> bool:
        """Whether an earlier page showed this session."""
        return (
            self._place is not None
            and self._database.execute(_IS_NEWER, (session, caller, *self._place)).fetchone() is not None
        )


def _earlier(until: float | None, ends: tuple[float, int] | tuple[()]) -> tuple[float, int] | tuple[()]:
    """Where a walk stops: at the end of its hour, or at its place if that comes first."""
    if until is None or (ends and ends[0] < until):
        return ends
    return (until, -1)


def _read_row(row: tuple[Any, ...] | None) -> PageRow | None:
    """Without the tier before it; None if gone or foreign."""
    if row is None or (line := read_line(row[:-3])) is None:
        return None
    return PageRow(row[-3], line, row[-2], row[-1], None)


def _tier_before(database: sqlite3.Connection, line: Line, number: int) -> str | None:
    if line.session is None or line.tier is None or line.turn_kind not in PERSONS_KINDS:
        return None
    found = database.execute(_BEFORE, (line.session, line.caller, number)).fetchone()
    return found[0] if found is not None else None


def _in_order(database: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> list[PageRow]:
    """Oldest first, each with the tier before it."""
    before, found = None, []
    for row in filter(None, map(_read_row, rows)):
        line, is_persons = row.line, row.line.turn_kind in PERSONS_KINDS and row.line.tier is not None
        if is_persons and before is None:
            before = _tier_before(database, line, row.number)
        found.append(row._replace(tier_before=before if is_persons else None))
        before = line.tier if is_persons else before
    return found
