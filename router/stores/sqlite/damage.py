"""Damage checks: small files at every start, any file in full by `tandem check --live`."""

import contextlib
import shlex
import sqlite3
from pathlib import Path

from router.contract.stores import StoreUnusable
from router.stores.sqlite.files import connect, connect_to_read, is_damage
from router.stores.sqlite.schemas import find_copies

_WAIT_SECONDS = 5.0
_CHECKED_BYTES = 64 << 20
"""The largest file checked at start, in about 0.2 s."""


class StoreDamaged(StoreUnusable):
    """`copy` is the newest sound copy, if any."""

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(f"{path} is damaged: {fault}")
        self.path, self.copy = path, find_sound_copy(path)

    @property
    def for_callers(self) -> str:
        return f"{self.path.name} is damaged"

    @property
    def hint(self) -> str:
        path = self.path
        file, log, index = (shlex.quote(str(path.with_name(path.name + end))) for end in ("", "-wal", "-shm"))
        aside = f"mv {file} {shlex.quote(f'{path}.damaged')} && rm -f {log} {index}"
        if self.copy is None:
            return f"there is no copy of it. This moves it away, and the next start makes a new one:\n  {aside}"
        use = f"cp -p {shlex.quote(str(self.copy))} {file}"
        return f"the newest copy is {self.copy}. This puts it in place:\n  {aside} && {use}"


def find_sound_copy(path: Path) -> Path | None:
    for copy in find_copies(path):
        with contextlib.suppress(sqlite3.Error, OSError):
            if not find_damage(copy):
                return copy
    return None


def find_damage(path: Path, *, in_full: bool = False) -> str:
    """The damage, or empty. `in_full` also compares every index with its table."""
    with contextlib.closing(connect_to_read(path, _WAIT_SECONDS)) as database:
        return read_damage(database, in_full=in_full)


def find_damage_at_start(path: Path) -> str:
    """Empty for a large file, or one that cannot be checked now."""
    if path.stat().st_size > _CHECKED_BYTES:
        return ""
    try:
        with contextlib.closing(connect(path, _WAIT_SECONDS)) as database:  # a read-only connection would leave its log behind
            return read_damage(database)
    except (sqlite3.Error, OSError):
        return ""  # the writer reports why


def read_damage(database: sqlite3.Connection, *, in_full: bool = False) -> str:
    """Raises `sqlite3.Error` if it cannot be checked now."""
    try:
        row = database.execute(f"PRAGMA {'integrity' if in_full else 'quick'}_check(1)").fetchone()
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            return str(error)
        raise
    return "" if row is None or row[0] == "ok" else str(row[0]).replace("\n", " ")
