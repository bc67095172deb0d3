"""The schemas of our files, each the result of numbered scripts, and the copies of older ones that lie next to a file."""

import contextlib
import glob
import shlex
import sqlite3
from importlib import resources
from pathlib import Path

from router.contract.stores import StoreUnusable

Migrations = tuple[str, ...]
"""Scripts of one kind of file: the n-th makes version n."""
_NO_COPIES = ("-wal", "-shm", "-journal", ".part")
"""Suffixes of unfinished copies and of open copies' side files."""


def read_migrations(kind: str) -> Migrations:
    folder = resources.files("router.stores.sqlite") / "migrations" / kind
    found = sorted((item for item in folder.iterdir() if item.name.endswith(".sql")), key=lambda item: item.name)
    return tuple(item.read_text(encoding="utf-8") for item in found)


LEDGER = read_migrations("ledger")
"""Entries, sessions and marks."""
RESPONSES = read_migrations("responses")
JOBS = read_migrations("jobs")


class StoreNewer(StoreUnusable):
    """`copy` is the copy from before the upgrade, if any."""

    def __init__(self, path: Path, version: int, known: int) -> None:
        super().__init__(f"{path.name} was written by a newer Tandem (schema {version} > {known})")
        self.path, self.copy = path, _find_older(path, known)

    def __str__(self) -> str:
        return f"{super().__str__()}\n  hint: {self._hint}"

    @property
    def for_callers(self) -> str:
        return super().__str__()

    @property
    def _hint(self) -> str:
        """Written late: an open file has a log, which closing it deletes."""
        if self.copy is None:
            return "use that Tandem, or move the file away"
        names = (f"{self.path}.newer{number}" for number in ("", *range(2, 1_000)))
        newer, log = next(name for name in names if not Path(name).exists()), Path(f"{self.path}-wal")
        moves = [(str(self.path), newer), (str(self.copy), str(self.path))]
        if log.exists() and log.stat().st_size:  # of the newer file: it must not be applied to the copy
            moves.insert(0, (str(log), f"{newer}-wal"))
        steps = (f"mv {shlex.quote(old)} {shlex.quote(new)}" for old, new in moves)
        use = f"use that Tandem, or its copy from before the upgrade, {self.copy}. While no router runs, this restores it:"
        return f"{use}\n  {' && '.join(steps)}"


def check_version(database: sqlite3.Connection, path: Path, migrations: Migrations) -> int:
    """The version of a file. Raises `StoreNewer`."""
    if (version := read_version(database)) > len(migrations):
        raise StoreNewer(path, version, len(migrations))
    return version


def read_version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def tables_of(migrations: Migrations) -> dict[str, tuple[str, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for script in migrations:
            database.executescript(script)
        return read_tables(database)


def read_tables(database: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    columns = "SELECT name FROM pragma_table_info(?)"
    return {table: tuple(name for (name,) in database.execute(columns, (table,))) for (table,) in found.fetchall()}


def find_copies(path: Path) -> list[Path]:
    """Copies kept by migrations, newest first."""
    found = (file for file in path.parent.glob(f"{glob.escape(path.name)}.before-*") if not file.name.endswith(_NO_COPIES))
    return sorted(found, key=lambda copy: copy.stat().st_mtime, reverse=True)


def version_of(file: Path) -> int | None:
    """None if unreadable. The file must not change, as a copy never does: no side files are made."""
    try:
        with contextlib.closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            return read_version(database)
    except (sqlite3.Error, OSError):
        return None


def _find_older(path: Path, known: int) -> Path | None:
    """Of the copies that fit, the one of the latest schema."""
    versions = {copy: version for copy in find_copies(path) if (version := version_of(copy)) is not None and version <= known}
    return max(versions, key=versions.__getitem__, default=None)
