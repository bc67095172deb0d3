"""The age limit of rows, safe from one start with a wrong clock.

Age counts from a time the file remembers. It follows the clock, except for leaps over a week: the machine was off, or its clock
is wrong. A leap is believed once a start at least a day later confirms it; until then only rows that were too old before it are
deleted.
"""

import secrets
import sqlite3
from collections.abc import Callable

from router.contract.clock import CLOCK
from router.stores.sqlite.migrate import UPKEEP
from router.telemetry import events

_DAY = 86_400.0
_LEAP_SECONDS = 7 * _DAY
_LATER_SECONDS = _DAY
_LONG_SECONDS = 30 * _DAY
"""A router running this long has had time for its clock to be noticed."""
_START = secrets.token_hex(8)
"""Identifies the process that saw a leap."""
_TABLE = f"CREATE TABLE IF NOT EXISTS {UPKEEP} (name TEXT PRIMARY KEY, at REAL NOT NULL, start TEXT NOT NULL) WITHOUT ROWID"
_TRUSTED, _AHEAD = "trusted", "ahead"


class Retention:
    def __init__(
        self,
        file: str,
        table: str,
        kept_seconds: float,
        *,
        clock: Callable[[], float] = CLOCK.trusted,
        start: str = _START,
        warns: bool = True,
    ) -> None:
        self._file, self._table, self._kept_seconds = file, table, kept_seconds
        self._clock, self._start = clock, start
        self._deleted = 0
        self._has_warned = not warns

    def find_limit(self, database: sqlite3.Connection) -> float:
        """Older rows may be deleted."""
        now = self._clock()
        trusted = self._find_trusted(database, now)
        if now - trusted > _LEAP_SECONDS and not self._has_warned:
            self._has_warned = True
            events.store_clock_leapt(file=self._file, days=int((now - trusted) / _DAY))
        return min(now, trusted) - self._kept_seconds

    def count(self, rows: int) -> None:
        self._deleted += rows

    def conclude(self) -> None:
        if self._deleted:
            events.rows_deleted(
                file=self._file, table=self._table, rows=self._deleted, kept_days=int(self._kept_seconds / _DAY)
            )
            self._deleted = 0

    def _find_trusted(self, database: sqlite3.Connection, now: float) -> float:
        database.execute(_TABLE)
        marks = {name: (at, start) for name, at, start in database.execute("SELECT name, at, start FROM upkeep")}
        trusted, _ = marks.get(_TRUSTED) or (self._find_newest(database, now), "")
        if now - trusted > _LEAP_SECONDS and _AHEAD in marks:
            seen_at, seen_by = marks[_AHEAD]
            is_other_start = seen_by != self._start and now - seen_at >= _LATER_SECONDS
            if is_other_start or now - seen_at >= _LONG_SECONDS:
                trusted = seen_at
            elif now >= seen_at:
                return float(trusted)
        if now - trusted <= _LEAP_SECONDS:
            trusted = max(trusted, now)
            database.execute("DELETE FROM upkeep WHERE name = ?", (_AHEAD,))
        else:
            self._note(database, _AHEAD, now)
        self._note(database, _TRUSTED, trusted)
        return float(trusted)

    def _find_newest(self, database: sqlite3.Connection, now: float) -> float:
        """For a file that remembers no time."""
        newest = database.execute(f"SELECT max(at) FROM {self._table} WHERE typeof(at) = 'real'").fetchone()[0]  # noqa: S608  ours
        return now if newest is None else min(float(newest), now)

    def _note(self, database: sqlite3.Connection, name: str, at: float) -> None:
        statement = "INSERT OR REPLACE INTO upkeep (name, at, start) VALUES (?, ?, ?)"
        database.execute(statement, (name, at, self._start))
