"""A database file that only its owner can read, made before SQLite sees it, and the two ways to open it."""

import contextlib
import os
import sqlite3
from pathlib import Path

READ_SECONDS = 0.2
WRITE_SECONDS = 5.0
"""How long a writer waits for another process's lock."""

_PRIVATE = 0o600


class StoreUnusable(Exception):
    """The file cannot be used for what we keep. The message says why."""


class StoreUnwritable(StoreUnusable):
    """The file can be neither made nor written to, because of where it is."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path.name} cannot be opened: {reason}")
        self.path, self.reason = path, reason


FAILURES = (sqlite3.Error, OSError, StoreUnusable)
"""How working with a file fails."""


def create_private(path: Path) -> int:
    """Make the file for its owner alone, where there is none. Answers its inode.

    One that is there is left as it is, since it may be another program's, or a link to one's: `prepare` looks, and then
    makes it private.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, _PRIVATE))
        return path.stat().st_ino
    except (OSError, ValueError) as error:
        raise StoreUnwritable(path, getattr(error, "strerror", None) or str(error)) from error


def make_private(path: Path) -> None:
    """Take a file of ours from everybody but its owner, with what SQLite keeps next to it."""
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_mode & 0o777 != _PRIVATE:
                file.chmod(_PRIVATE)


def inode_of(path: Path) -> int:
    """Which file is at this path; 0 where there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def connect(path: Path, timeout_seconds: float = WRITE_SECONDS) -> sqlite3.Connection:
    """A connection to an existing file: one that is gone must not be made again by someone who merely writes."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=timeout_seconds, isolation_level=None)


def connect_to_read(path: Path, timeout_seconds: float = READ_SECONDS) -> sqlite3.Connection:
    """A connection that cannot write. The file is not made either, nor are its tables."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=timeout_seconds)
