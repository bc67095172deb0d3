"""Private database files, created before SQLite sees them, and ways to open them.

Existing files are opened through SQLite only: POSIX drops all of a process's locks on a file when it closes any handle to it,
and the next program would then delete the log that SQLite writes to.
"""

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from router.contract.stores import AskedTooMuch, StoreUnusable
from router.stores.folders import make_folders
from router.stores.sqlite.schemas import LEDGER, check_version

READ_SECONDS = 0.2
WRITE_SECONDS = 5.0
RETRY_SECONDS = 5.0
"""How often an idle file is checked for existence, and how long at most until one that fails is tried again."""

ANSWER_SECONDS = 60.0
"""Limit for any ledger query: its snapshot keeps the log from being emptied."""
_STEPS = 10_000
"""SQLite steps between two looks at the clock: about a millisecond."""
_PRIVATE = 0o600
_LOG_BYTES = 16 << 20
"""What is kept of the log's file once its rows are in the database."""


class StoreUnwritable(StoreUnusable):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path.name} cannot be opened: {reason}")
        self.path, self.reason = path, reason


FAILURES = (sqlite3.Error, OSError, StoreUnusable)
_DISK_FULL = "DiskFull"
FULL = "the disk is full"
_LEAST_ROOM_BYTES = 64 << 10
"""For the index of SQLite's log (32 KB) and a few pages."""
DAMAGED = "Damaged"
_DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOCKED_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DISK_CODES = (
    *_LOCKED_CODES,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
)
"""Errors of the place, which may pass, rather than of what is in the file."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def kind_of(error: BaseException) -> str:
    """In a word or a few, for events."""
    if is_full(error) or is_full(error.__cause__):
        return _DISK_FULL
    if isinstance(error, StoreUnwritable):
        return _DISK_FULL if error.reason == FULL else error.reason
    return DAMAGED if is_damage(error) or is_damage(error.__cause__) else type(error).__name__


def cause_of(error: BaseException, path: Path | None = None) -> str:
    """In words, for people. `path`: where it happened, since SQLite cannot always tell a full disk from a broken one."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if (
        is_full(error)
        or is_full(error.__cause__)
        or (code == sqlite3.SQLITE_IOERR and path is not None and not _has_room(path))
    ):
        return FULL
    if code in _LOCKED_CODES:
        return "another program has locked it"
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)


def _has_room(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.resolve().parent).free >= _LEAST_ROOM_BYTES
    except OSError:
        return True


def is_of_the_disk(error: BaseException) -> bool:
    return isinstance(error, OSError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _DISK_CODES


def is_full(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL or getattr(error, "errno", 0) in _NO_ROOM


def is_damage(error: BaseException | None) -> bool:
    """Broken, rather than locked or full."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED_CODES


class Inodes(NamedTuple):
    """0 if absent."""

    file: int
    log: int
    log_index: int


def create_private(path: Path) -> None:
    """Leaves an existing file unopened: it may be another program's. `prepare` checks it and makes it private."""
    check_place(path)
    try:
        make_folders(path.parent)
        if not (real := path.resolve()).exists():
            _create(real)
    except OSError as error:
        raise StoreUnwritable(path, cause_of(error)) from error


def check_place(path: Path) -> None:
    """Leaves no trace. Raises `StoreUnwritable`."""
    try:
        with tempfile.TemporaryFile(dir=next(parent for parent in path.parents if parent.exists())):
            real = path.resolve()  # trying is the only way: permissions are not the only obstacle
        if real.is_symlink():  # Python 3.13 does not raise for circular links
            raise StoreUnwritable(path, os.strerror(errno.ELOOP))
        if real.exists() and not real.is_file():
            raise StoreUnwritable(path, os.strerror(errno.EISDIR) if real.is_dir() else "not a regular file")
        if real.exists() and not os.access(real, os.R_OK | os.W_OK):
            raise StoreUnwritable(path, _say_why_closed(real))
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: circular links before Python 3.13
        raise StoreUnwritable(path, cause_of(error)) from error


def _say_why_closed(path: Path) -> str:
    return os.strerror(errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES)


def _create(path: Path) -> None:
    """Link an empty file into place, so that SQLite never finds one whose handle must be closed."""
    handle, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    os.close(handle)
    try:
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(fresh, path)
    except OSError:  # no hard links on this file system
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE))
    finally:
        os.unlink(fresh)


def side_files(path: Path) -> tuple[Path, Path]:
    """SQLite's log and its index, in WAL mode."""
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def make_private(path: Path) -> None:
    for file in (path, *side_files(path)):
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_mode & 0o777 != _PRIVATE:
                file.chmod(_PRIVATE)


def inode_of(path: Path | str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def inodes_of(path: Path) -> Inodes:
    """Checked before each write: none may change while a connection is open. Text names are twice as fast as paths."""
    file = inode_of(name := os.fspath(path))
    real = _find_real(name, file)
    return Inodes(file, inode_of(f"{real}-wal"), inode_of(f"{real}-shm"))


@lru_cache(64)
def _find_real(path: str, inode: int) -> str:
    """Where a link leads: to another file once it is changed, so that its inode is part of the key."""
    return os.path.realpath(path)


# Found at once: for values of types without an adapter, Python's module searches for up to a microsecond, for each of them.
sqlite3.register_adapter(bool, int)
sqlite3.register_adapter(type(None), dict[None, None]().get)


def connect(path: Path, timeout_seconds: float | None = None) -> sqlite3.Connection:
    """Never recreates a file that is gone."""
    address, timeout = f"{path.resolve().as_uri()}?mode=rw", WRITE_SECONDS if timeout_seconds is None else timeout_seconds
    database = sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None)
    database.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    return database


def connect_to_read(
    path: Path, timeout_seconds: float = READ_SECONDS, *, one_thread: bool = True, without_log: bool = False
) -> sqlite3.Connection:
    """Also from a read-only file system, where SQLite cannot make its side files."""
    real = path.resolve()
    address = f"{real.as_uri()}?mode=ro"
    if without_log or (not os.access(real.parent, os.W_OK) and not _has_log(real)):
        address += "&immutable=1"
    return sqlite3.connect(address, uri=True, timeout=timeout_seconds, check_same_thread=one_thread)


def _has_log(path: Path) -> bool:
    """Whether rows may be in the log alone."""
    try:
        return side_files(path)[0].stat().st_size > 0
    except OSError:
        return False


def has_closed_log(path: Path, error: sqlite3.Error) -> bool:
    """Whether the log cannot be read: SQLite cannot make the index that it needs."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CANTOPEN and _has_log(path.resolve())


def say_unreadable(path: Path, error: sqlite3.Error) -> str:
    if not has_closed_log(path, error):
        return str(error)
    log = side_files(path.resolve())[0].name
    return f"{error}\n  hint: its newest rows are in {log}, and the folder is read-only: copy both files to another folder"


@contextlib.contextmanager
def open_ledger(
    path: Path, lock_seconds: float = WRITE_SECONDS, *, writes: bool = False, within_seconds: float = ANSWER_SECONDS
) -> Iterator[sqlite3.Connection]:
    """Raises `StoreUnusable` without a ledger, for errors in the block, and `AskedTooMuch` after so much time of the CPU."""
    if not path.is_file():
        raise StoreUnusable(f"{path}: there is no ledger yet")
    try:
        with contextlib.closing((connect if writes else connect_to_read)(path, lock_seconds)) as database:
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")  # called for each text
            deadline = time.thread_time() + within_seconds  # a busy machine must not make an answer too much
            database.set_progress_handler(lambda: time.thread_time() > deadline, _STEPS)
            check_version(database, path, LEDGER)
            yield database
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            raise AskedTooMuch(f"{path}: no answer within {within_seconds:g} s\n  hint: ask for less, with --since") from error
        raise StoreUnusable(f"{path}: not a usable ledger: {say_unreadable(path, error)}") from error


def count_rows(database: sqlite3.Connection) -> int:
    """0 if unreadable."""
    with contextlib.suppress(sqlite3.Error):
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'").fetchall()
        return sum(int(database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]) for (name,) in tables)  # noqa: S608  ours
    return 0
