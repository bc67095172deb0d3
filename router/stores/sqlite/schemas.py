"""The schemas of our files, each the result of numbered scripts, and the copies of older ones that lie next to a file."""

import contextlib
import glob
import shlex
import sqlite3
from importlib import resources
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from router.contract.stores import StoreUnusable

_NO_COPIES = ("-wal", "-shm", "-journal", ".part")
"""Suffixes of unfinished copies and of open copies' side files."""


class Migrations(Struct, frozen=True):
    """Scripts of one kind of file: the first makes a new file of version `oldest`, each other one the next version."""

    oldest: int
    scripts: tuple[str, ...]

    @property
    def newest(self) -> int:
        return self.oldest + len(self.scripts) - 1

    def after(self, version: int) -> tuple[str, ...]:
        """What a file of this version lacks: all of it for a new one, of version 0."""
        return self.scripts[max(version - self.oldest + 1, 0) :]

    def up_to(self, version: int) -> "Migrations":
        return replace(self, scripts=self.scripts[: max(version - self.oldest + 1, 0)])


def read_migrations(kind: str) -> Migrations:
    folder = resources.files("router.stores.sqlite") / "migrations" / kind
    found = sorted((item for item in folder.iterdir() if item.name.endswith(".sql")), key=lambda item: item.name)
    oldest = int(found[0].name.removesuffix(".sql"))
    return Migrations(oldest, tuple(item.read_text(encoding="utf-8") for item in found))


LEDGER = read_migrations("ledger")
"""Entries, sessions and marks."""
RESPONSES = read_migrations("responses")
JOBS = read_migrations("jobs")


class StoreNewer(StoreUnusable):
    """`copy` is the copy from before the upgrade, if any."""

    def __init__(self, path: Path, version: int, known: Migrations) -> None:
        super().__init__(f"{path.name} was written by a newer Tandem (schema {version} > {known.newest})")
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


class StoreOlder(StoreUnusable):
    def __init__(self, path: Path, version: int, known: Migrations) -> None:
        super().__init__(f"{path.name} was written by a Tandem before 0.4.0 (schema {version} < {known.oldest})")

    def __str__(self) -> str:
        return f"{super().__str__()}\n  hint: move it away, and a new one is begun"

    @property
    def for_callers(self) -> str:
        return super().__str__()


def check_version(database: sqlite3.Connection, path: Path, migrations: Migrations) -> int:
    """The version of a file; 0 for a new one. Raises `StoreNewer` and `StoreOlder`."""
    if (version := read_version(database)) > migrations.newest:
        raise StoreNewer(path, version, migrations)
    if 0 < version < migrations.oldest and not read_tables(database).keys().isdisjoint(tables_of(migrations)):
        raise StoreOlder(path, version, migrations)
    return version


def read_version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def tables_of(migrations: Migrations) -> dict[str, tuple[str, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for script in migrations.scripts:
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


def _find_older(path: Path, known: Migrations) -> Path | None:
    """Of the copies that fit, the one of the latest schema."""
    versions = {copy: version_of(copy) or 0 for copy in find_copies(path)}
    fitting = (copy for copy, version in versions.items() if known.oldest <= version <= known.newest)
    return max(fitting, key=versions.__getitem__, default=None)
