"""A database file that only its owner can read, made before SQLite sees it."""

import os
import sqlite3
from pathlib import Path


class LedgerUnusable(Exception):
    """The file cannot be used for what we keep. The message says why and what to do."""


def create_private(path: Path) -> int:
    """Make the file, or take it as it is, for its owner alone; SQLite's side files copy its rights. Answers its inode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
        return path.stat().st_ino
    except OSError as error:
        raise LedgerUnusable(f"{path.name} cannot be opened: {error.strerror}") from error


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there: one that is gone must not be made again by someone who merely writes."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=5.0, isolation_level=None)


def prepare(path: Path, schema: str, version: int) -> None:
    """Bring the file's tables into being, and refuse a file that a newer Tandem wrote or that is no database."""
    database = connect(path)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        found = database.execute("PRAGMA user_version").fetchone()[0]
        if found > version:
            raise LedgerUnusable(f"{path.name} was written by a newer Tandem (schema {found} > {version})")
        database.executescript(schema)
        database.execute(f"PRAGMA user_version = {version}")
    except sqlite3.DatabaseError as error:
        raise LedgerUnusable(f"{path.name} is not a usable ledger: {error}") from error
    finally:
        database.close()
