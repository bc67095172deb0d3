"""Numbered migrations: applied forward, each in one transaction, and counted by `PRAGMA user_version`.

A file that holds something is copied before its first migration, so that an older Tandem can go on with the copy.
"""

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from router.stores.sqlite.files import StoreUnusable, connect, make_private

Migrations = tuple[str, ...]
"""The scripts of one kind of file: the n-th makes version n."""
_LEADING = 4
"""How many columns tell a table of ours from another program's of the same name."""


class Migrated(NamedTuple):
    """What opening a file changed in it. `copy` is the file as it was before."""

    file: str
    before: int
    version: int
    copy: Path


def read_migrations(kind: str) -> Migrations:
    """The scripts in `migrations/<kind>/`, in the order of their numbers."""
    folder = resources.files("router.stores.sqlite") / "migrations" / kind
    found = sorted((item for item in folder.iterdir() if item.name.endswith(".sql")), key=lambda item: item.name)
    return tuple(item.read_text(encoding="utf-8") for item in found)


LEDGER = read_migrations("ledger")
"""Entries, sessions and marks."""
RESPONSES = read_migrations("responses")


def prepare(path: Path, migrations: Migrations) -> Migrated | None:
    """Bring an existing file to the newest version. Answers what was done to one that held something already.

    Raises `StoreUnusable` for a file that a newer Tandem or another program wrote, that is not a database, or that cannot be
    migrated: such a file is left as it was.
    """
    try:
        with contextlib.closing(connect(path)) as database:
            before = _read_version(database)
            if before > len(migrations):
                raise StoreUnusable(f"{path.name} was written by a newer Tandem (schema {before} > {len(migrations)})")
            _check_ours(database, path, before, migrations)
            make_private(path)
            database.execute("PRAGMA journal_mode = WAL")
            return _migrate(database, path, before, migrations) if before < len(migrations) else None
    except (sqlite3.Error, OSError) as error:
        raise StoreUnusable(f"{path.name} is not a usable database: {error}") from error


def read_columns(migrations: Migrations, table: str) -> tuple[str, ...]:
    """The columns of a table as the migrations make it."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for script in migrations:
            database.executescript(script)
        return _read_columns(database, table)


def _read_version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _check_ours(database: sqlite3.Connection, path: Path, before: int, migrations: Migrations) -> None:
    """Refuse a file of another program, which may have a table of the same name, or count its versions in the same place.

    A table of ours begins with our columns: later versions add theirs at its end. A file that counts no version holds nothing
    but our tables; to one that does, its owner may have added some.
    """
    found, ours = _read_tables(database), _tables_of(migrations[: max(before, 1)])
    leading = {name: columns[:_LEADING] for name, columns in ours.items()}
    foreign = [name for name, first in leading.items() if name in found and found[name][: len(first)] != first]
    if before == 0:
        known = _tables_of(migrations)
        foreign += [name for name in found if name not in known]
    if foreign:
        raise StoreUnusable(f'{path.name} belongs to another program: its table "{foreign[0]}" is not one of Tandem\'s')
    if found and found.keys().isdisjoint(ours):
        raise StoreUnusable(f"{path.name} belongs to another program: it has none of the tables that Tandem keeps there")


def _tables_of(migrations: Migrations) -> dict[str, tuple[str, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for script in migrations:
            database.executescript(script)
        return _read_tables(database)


def _read_tables(database: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """The columns of each table, in their order."""
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    return {name: _read_columns(database, name) for (name,) in names.fetchall()}


def _read_columns(database: sqlite3.Connection, table: str) -> tuple[str, ...]:
    return tuple(name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,)))


def _migrate(database: sqlite3.Connection, path: Path, before: int, migrations: Migrations) -> Migrated | None:
    is_new = database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    copy = None if is_new else _keep_copy(database, path, before + 1)
    try:
        for version, script in enumerate(migrations[before:], start=before + 1):
            _apply(database, version, script)
    except BaseException:
        if copy is not None and _read_version(database) == before:
            copy.unlink(missing_ok=True)  # the file is as it was: a copy for each try would fill the disk
        raise
    return Migrated(path.name, before, len(migrations), copy) if copy is not None else None


def _apply(database: sqlite3.Connection, version: int, script: str) -> None:
    """One migration, whole or not at all."""
    database.execute("BEGIN IMMEDIATE")
    try:
        if _read_version(database) < version:  # another process may have been faster
            for statement in _split(script):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {version}")
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _split(script: str) -> Iterator[str]:
    """The statements of a script: `executescript` would end the transaction that they belong to."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def _keep_copy(database: sqlite3.Connection, path: Path, version: int) -> Path:
    """Copy the whole file next to it, under a name that is still free. A copy that breaks off leaves nothing."""
    copy = _reserve(path, f"{path.name}.before-{version}")
    part = copy.with_name(f"{copy.name}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with contextlib.closing(sqlite3.connect(part)) as target:
            database.backup(target)
        part.replace(copy)
    except BaseException:
        part.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)
        raise
    return copy


def forget_copies(path: Path, oldest: float) -> None:
    """Delete copies that were made before a moment: what the file no longer holds must not stay in them."""
    for copy in path.parent.glob(f"{path.name}.before-*"):
        with contextlib.suppress(OSError):
            if copy.stat().st_mtime < oldest:
                copy.unlink()


def _reserve(path: Path, name: str) -> Path:
    """Make an empty file where there was none: an older copy is never written over."""
    for number in itertools.count(1):
        copy = path.with_name(name if number == 1 else f"{name}.{number}")
        with contextlib.suppress(FileExistsError):
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            break
    return copy
