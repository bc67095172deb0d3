"""Migrations of a file: forward only, all in one transaction, counted by `PRAGMA user_version`.

A file with content is first copied, for an older Tandem. The copy gets its name once the file is migrated: a killed process
leaves the old file, or the new one and its whole copy, which the next start names.
"""

import contextlib
import glob
import itertools
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from router.contract.entry import COLUMNS, column_types
from router.contract.stores import StoreUnusable
from router.stores.sqlite.compact import MAPPED
from router.stores.sqlite.damage import StoreDamaged, find_damage_at_start, read_damage
from router.stores.sqlite.files import (
    WRITE_SECONDS,
    StoreUnwritable,
    cause_of,
    check_place,
    connect,
    connect_to_read,
    create_private,
    is_damage,
    is_of_the_disk,
    make_private,
)
from router.stores.sqlite.lock import FileLock, StoreInUse, find_owner
from router.stores.sqlite.room import foresee_room, page_bytes
from router.stores.sqlite.rows import transaction
from router.stores.sqlite.schemas import (
    LEDGER,
    Migrations,
    check_version,
    find_copies,
    read_tables,
    read_version,
    tables_of,
    version_of,
)
from router.telemetry import events

SQL: dict[type, str] = {str: "TEXT", float: "REAL", int: "INTEGER", bool: "INTEGER"}
UPKEEP = "upkeep"
"""The table of `retention`, which a file of any version may have."""
_OTHERS_SECONDS = 60.0
_LARGE_BYTES = 100_000_000
"""Larger files take a second or more to copy and migrate."""
_UNWRITTEN_BYTES = 4 << 20
"""Room that must be left before the commit: pages that SQLite still holds in memory, and the first rows."""
_LEADING = 4
"""Leading columns that tell our table from another program's."""
_PART = ".part"


class Migrated(NamedTuple):
    """`copy` is the file before."""

    file: str
    before: int
    version: int
    copy: Path


def prepare(path: Path, migrations: Migrations) -> Migrated | None:
    """Migrate a file; returns what was done to one with content.

    Raises `StoreUnusable`, leaving the file unchanged, for one of a Tandem that is newer or from before 0.4.0 or of another
    program, or a failed migration.
    """
    with _explained(path), contextlib.closing(connect(path)) as database:
        before = _check_ours(database, path, migrations)
        make_private(path)
        database.execute(MAPPED)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA busy_timeout = {int(_OTHERS_SECONDS * 1_000)}")
        migrated = _settle_copy(database, path)
        if before < migrations.newest:
            migrated = _migrate(database, path, migrations) or migrated
        if migrations is LEDGER:
            _add_columns(database)
        return migrated


class OwnFile:
    """A file that this process alone writes to."""

    def __init__(self, path: Path, migrations: Migrations, address: str = "") -> None:
        self._path, self._migrations, self._address = path, migrations, address
        self._lock: FileLock | None = None
        self.was_open = False

    def open(self) -> None:
        """Create or migrate the file, and take it. Raises `StoreUnusable`: `StoreUnwritable` where a later try may succeed.

        A folder that was moved is not made again: the file in it would be a second, empty one.
        """
        if self.was_open and not self._path.parent.exists():
            raise StoreUnwritable(self._path, "its folder was moved or deleted")
        create_private(self._path)
        if self._lock is None or self._lock.is_left:
            self.release()
            self._lock = FileLock(self._path, self._address)
        try:
            if (done := prepare(self._path, self._migrations)) is not None:
                events.store_migrated(file=done.file, before=done.before, version=done.version, copy=done.copy.name)
            if not self.was_open and (damage := find_damage_at_start(self._path)):
                raise StoreDamaged(self._path, damage)
        except BaseException:
            if not self.was_open:
                self.release()
            raise
        self.was_open = True

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def rehearse(path: Path, migrations: Migrations, *, in_full: bool = False) -> None:
    """Raise what opening for writing would, changing nothing. `in_full` checks every index too."""
    check_place(path)
    if (owner := find_owner(path)) is not None:
        raise StoreInUse(path, owner)
    if not path.exists():
        return
    with _explained(path), contextlib.closing(connect_to_read(path, WRITE_SECONDS)) as database:
        _check_ours(database, path, migrations)
        if damage := read_damage(database, in_full=in_full):
            raise StoreDamaged(path, damage)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if is_of_the_disk(error):
            raise StoreUnwritable(path, cause_of(error, path)) from error
        if is_damage(error) and (find_copies(path) or "not a database" not in str(error)):  # else any program's file
            raise StoreDamaged(path, str(error)) from error
        raise StoreUnusable(f"{path.name} is not a usable database: {error}") from error


def foresee(path: Path, migrations: Migrations) -> tuple[int, int] | None:
    """The version before, and the bytes needed; None if current."""
    try:
        with contextlib.closing(connect_to_read(path)) as database:
            before = read_version(database)
            is_due = migrations.oldest <= before < migrations.newest
            return (before, foresee_room(database, before, migrations)) if is_due else None
    except (sqlite3.Error, OSError):
        return None


def _check_ours(database: sqlite3.Connection, path: Path, migrations: Migrations) -> int:
    """Refuse a file of a Tandem that is newer or from before 0.4.0, or of another program.

    Another program may use our table names or `user_version`. Our tables begin with our columns, as later versions append
    theirs. A file without a version may hold none; in others, owners may have added some.
    """
    before = check_version(database, path, migrations)
    found, ours = read_tables(database), tables_of(migrations.up_to(before))
    found.pop(UPKEEP, None)
    leading = {name: columns[:_LEADING] for name, columns in ours.items()}
    foreign = [name for name, first in leading.items() if name in found and found[name][: len(first)] != first]
    if before == 0:
        foreign += found
    if foreign:
        raise StoreUnusable(f'{path.name} is not a Tandem database (unexpected table "{foreign[0]}")')
    if found and found.keys().isdisjoint(ours):
        raise StoreUnusable(f"{path.name} is not a Tandem database (expected tables are missing)")
    return before


def _migrate(database: sqlite3.Connection, path: Path, migrations: Migrations) -> Migrated | None:
    """Concurrent processes wait for the first."""
    has_content, migrated = False, None
    try:
        with transaction(database):
            before, begins = read_version(database), page_bytes(database)
            if before >= migrations.newest:
                return None  # another process was faster
            if has_content := bool(read_tables(database)):
                _foresee_room(path, before, migrations)
                if damage := read_damage(database):
                    raise StoreDamaged(path, damage)  # a copy of it would replace a sound one
                _copy(path, before, migrations.newest)
            for statement in itertools.chain.from_iterable(map(_split, migrations.after(before))):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {migrations.newest}")
            if has_content:
                _check_room(path, path.resolve().parent, page_bytes(database) - begins + _UNWRITTEN_BYTES)
    finally:
        if has_content:
            migrated = _settle_copy(database, path)
    return migrated


def _add_columns(database: sqlite3.Connection) -> None:
    """Columns that need no script, null in older rows."""
    found = read_tables(database).get("entries", COLUMNS)
    if missing := column_types().keys() - set(found):
        with transaction(database):
            missing -= set(read_tables(database)["entries"])  # another process may have been faster
            for name, (kind, _) in column_types().items():
                if name in missing:
                    database.execute(f"ALTER TABLE entries ADD COLUMN {name} {SQL[kind]}")


def _split(script: str) -> Iterator[str]:
    """`executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def _foresee_room(path: Path, before: int, migrations: Migrations) -> None:
    """Before the file is read whole: without room, a router tries again and again. Raises `StoreUnwritable`."""
    with contextlib.closing(connect_to_read(path, WRITE_SECONDS)) as source:
        _check_room(path, path.parent, foresee_room(source, before, migrations))


def _copy(path: Path, before: int, version: int) -> None:
    with contextlib.closing(connect_to_read(path, WRITE_SECONDS)) as source:
        if (size := page_bytes(source)) > _LARGE_BYTES:
            events.store_migrating(file=path.name, before=before, version=version, megabytes=size // 1_000_000)
        part = path.with_name(f"{path.name}.before-{before + 1}{_PART}")
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with contextlib.closing(sqlite3.connect(part)) as target:
            target.execute("PRAGMA journal_mode = OFF")
            source.backup(target)


def _check_room(path: Path, folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StoreUnwritable(path, say_room(needed, free))


def say_room(needed: int, free: int) -> str:
    megabytes, left = -(-needed // 1_000_000), free // 1_000_000
    return f"the migration makes a copy and builds indexes, which needs {megabytes} MB; {left} MB are free"


def _settle_copy(database: sqlite3.Connection, path: Path) -> Migrated | None:
    """Give a copy its name if the file was migrated since, else delete it."""
    parts, migrated = list(path.parent.glob(f"{glob.escape(path.name)}.before-*{_PART}")), None
    if not parts:
        return None
    with transaction(database):  # no other process is copying
        version = read_version(database)
        for part in parts:
            if (before := version_of(part)) is not None and before < version:
                migrated = Migrated(path.name, before, version, _give_name(part, part.with_suffix("")))
            part.unlink(missing_ok=True)
    return migrated


def _give_name(part: Path, wanted: Path) -> Path:
    """Never overwrites a copy."""
    for number in itertools.count(1):
        copy = wanted if number == 1 else wanted.with_name(f"{wanted.name}.{number}")
        try:
            os.link(part, copy)
        except FileExistsError:
            if copy.samefile(part):
                break  # a process was killed before it could delete the part
            continue
        except FileNotFoundError:
            return wanted  # another process has just named it
        except OSError:  # no hard links on this file system
            if copy.exists():
                continue
            part.rename(copy)
        break
    return copy


def forget_copies(path: Path, oldest: float) -> None:
    """Copies outlive rows deleted from the file."""
    for copy in path.parent.glob(f"{glob.escape(path.name)}.before-*"):
        with contextlib.suppress(OSError):
            if copy.stat().st_mtime < oldest:
                copy.unlink()
