"""Deletes everything kept of one caller, and rewrites the file and its log, where deleted rows would linger."""

import contextlib
import glob
import os
import sqlite3
from pathlib import Path
from typing import NamedTuple

from router.contract.caller import Caller, record_prefix
from router.contract.stores import StoreUnusable
from router.stores.sqlite import hours, turn_worth
from router.stores.sqlite.files import connect, connect_to_read, is_damage, is_full
from router.stores.sqlite.lock import find_owner
from router.stores.sqlite.rows import transaction
from router.stores.sqlite.schemas import JOBS, LEDGER, RESPONSES, StoreOlder, check_version, find_copies

_LOCK_SECONDS = 30.0
_OF_CALLER = {
    "marks": ("misjudged", "request_id IN (SELECT id FROM entries WHERE caller = :caller)"),
    "places": ("places", "caller = :caller"),
    "requests": ("entries", "caller = :caller"),
    "items": ("items", "caller = :caller"),
    "responses": ("transcripts", "caller = :caller"),
    "events": ("outbox", "job IN (SELECT id FROM jobs WHERE caller = :caller)"),
    "jobs": ("jobs", "caller = :caller"),
}
"""Kind, table and condition. Referring rows come first: marks, events. Only copies have places."""
_SCHEMAS = {"entries": LEDGER, "transcripts": RESPONSES, "jobs": JOBS}
_OF_SESSIONS = "(:prefix != '' AND substr(key, 1, length(:prefix)) = :prefix) OR (:prefix = '' AND instr(key, '.') = 0)"


class Kept(NamedTuple):
    file: Path
    rows: dict[str, int]
    """By kind: requests, sessions, marks, places, responses, items, jobs, events."""
    is_deleted: bool = False
    """A copy that could not be changed was deleted whole."""
    problem: str = ""

    @property
    def total(self) -> int:
        return sum(self.rows.values())


def count_kept(path: Path, caller: Caller) -> Kept:
    """Raises `StoreUnusable`."""
    try:
        with contextlib.closing(connect_to_read(path, _LOCK_SECONDS)) as database:
            return Kept(path, _work_through(database, path, caller, deletes=False))
    except (sqlite3.Error, OSError) as error:
        raise StoreUnusable(f"{path}: not a usable database: {error}") from error


def forget_caller(path: Path, caller: Caller) -> Kept:
    """Raises `StoreUnusable`, having deleted nothing."""
    try:
        with contextlib.closing(connect(path, _LOCK_SECONDS)) as database:
            database.execute("PRAGMA secure_delete = ON")
            with transaction(database):
                rows = _work_through(database, path, caller, deletes=True)
            return Kept(path, rows, problem=_wipe(database))
    except (sqlite3.Error, OSError) as error:
        raise StoreUnusable(f"{path}: nothing was deleted: {error}") from error


def forget_in_copies(path: Path, caller: Caller) -> list[Kept]:
    """Deletes damaged copies whole. Returns copies that had something."""
    if find_owner(path) is None:
        for part in path.parent.glob(f"{glob.escape(path.name)}.before-*.part"):
            part.unlink(missing_ok=True)  # left by a killed migration
    found = (_forget_in_copy(copy, caller) for copy in find_copies(path))
    return [kept for kept in found if kept.total or kept.is_deleted or kept.problem]


def _forget_in_copy(copy: Path, caller: Caller) -> Kept:
    try:
        kept = count_kept(copy, caller)
        if not kept.total:
            return kept
        times = copy.stat()
        kept = forget_caller(copy, caller)
        os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))  # retention goes by its age
    except StoreOlder as error:
        return Kept(copy, {}, problem=f"{error.for_callers}: delete it")
    except StoreUnusable as error:
        if error.__cause__ is None or not is_damage(error.__cause__):
            return Kept(copy, {}, problem=str(error))
        copy.unlink()
        return Kept(copy, {}, is_deleted=True)
    return kept


def forget_word_hashes(copy: Path) -> int:
    """Delete hashes of what people typed from an older ledger's copy. Returns of how many turns. Raises `StoreUnusable`."""
    try:
        with contextlib.closing(connect(copy)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'places'").fetchall():
                return 0
            database.execute("PRAGMA secure_delete = ON")
            times = copy.stat()
            with transaction(database):
                count = database.execute("DELETE FROM places").rowcount
                database.execute("UPDATE misjudged SET places = NULL")
        os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))  # retention goes by its age
        return count
    except (sqlite3.Error, OSError) as error:
        raise StoreUnusable(f"{copy}: not a usable database: {error}") from error


def _work_through(database: sqlite3.Connection, path: Path, caller: Caller, *, deletes: bool) -> dict[str, int]:
    """Raises `StoreNewer` or `StoreOlder` for a file that may have other tables."""
    there = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in there & _SCHEMAS.keys():
        check_version(database, path, _SCHEMAS[table])
    values, rows = {"caller": caller.name, "prefix": record_prefix(caller)}, {}
    if "sessions" in there:
        rows["sessions"] = _of_table(database, "sessions", _OF_SESSIONS, values, deletes=deletes)
    for kind, (table, condition) in _OF_CALLER.items():
        if table in there:
            rows[kind] = _of_table(database, table, condition, values, deletes=deletes)
    for table in (hours.DERIVED | turn_worth.DERIVED) & there if deletes else ():  # last: deleting entries marks their hours
        database.execute(f"DELETE FROM {table} WHERE caller = :caller", values)  # noqa: S608  fixed names
    return rows


def _of_table(database: sqlite3.Connection, table: str, condition: str, values: dict[str, str], *, deletes: bool) -> int:
    where = f"FROM {table} WHERE {condition}"
    count = int(database.execute(f"SELECT count(*) {where}", values).fetchone()[0])
    if deletes and count:
        database.execute(f"DELETE {where}", values)
    return count


def _wipe(database: sqlite3.Connection) -> str:
    """Returns the failure, if any."""
    try:
        database.execute("VACUUM")
        is_busy = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.OperationalError as error:
        why = "the disk is full" if is_full(error) else str(error)
        return f"the rows are deleted, but their bytes may still be in free pages of the file ({why})"
    if is_busy:
        return "the rows are deleted, but their bytes may still be in the log until the router stops: another program reads it"
    return ""
