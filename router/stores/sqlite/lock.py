"""The right to write to a database file: an advisory lock on a file next to it, which names the owner.

The kernel releases it however the process ends. Readers, and programs that add a row, take none.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from router.contract.stores import StoreUnusable
from router.stores.sqlite.files import StoreUnwritable, inode_of

_TRIES, _PAUSE_SECONDS = 5, 0.02
"""`find_owner` holds the lock for a moment, so try again."""
_MAX_BYTES = 1_000


class Owner(Struct, frozen=True):
    pid: int = 0
    address: str = ""
    """Listening address; empty if unknown, as for an app inside another server."""
    since: float = 0.0

    def __str__(self) -> str:
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"{self.address or 'embedded in another program'}, pid {self.pid}, since {started}" if self.pid else "unknown"


class StoreInUse(StoreUnusable):
    """Two routers on one file would each miss the other's sessions."""

    def __init__(self, path: Path, owner: Owner) -> None:
        super().__init__(f"{path} is in use by another Tandem router ({owner})")
        self.path, self.owner = path, owner

    @property
    def for_callers(self) -> str:
        return f"{self.path.name} is in use by another router"


class FileLock:
    def __init__(self, path: Path, address: str = "") -> None:
        """Raises `StoreInUse`, or `StoreUnwritable` if no lock file can be made."""
        self._file, owner = _lock_file(path), Owner()
        for _ in range(_TRIES):
            try:
                self._handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                raise StoreUnwritable(path, error.strerror or str(error)) from error
            if _try_lock(self._handle, fcntl.LOCK_EX) and self._holds_file():
                with contextlib.suppress(OSError):  # disk full: the lock holds without a name
                    os.ftruncate(self._handle, 0)
                    os.pwrite(self._handle, msgspec.json.encode(Owner(os.getpid(), address, time.time())), 0)
                return
            owner = _read_owner(self._handle)
            os.close(self._handle)
            time.sleep(_PAUSE_SECONDS)
        raise StoreInUse(path, owner)

    @property
    def is_left(self) -> bool:
        """Whether the locked file is no longer in its place: it was moved with its folder, or deleted."""
        return not self._holds_file()

    def release(self) -> None:
        with contextlib.suppress(OSError):
            if self._holds_file():
                self._file.unlink()
        os.close(self._handle)

    def _holds_file(self) -> bool:
        """Whether the lock is on the visible file: a dying owner deletes it, and folders move."""
        return inode_of(self._file) == os.fstat(self._handle).st_ino


def find_owner(path: Path) -> Owner | None:
    try:
        handle = os.open(_lock_file(path), os.O_RDONLY)
    except OSError:
        return None
    try:
        return None if _try_lock(handle, fcntl.LOCK_SH) else _read_owner(handle)
    finally:
        os.close(handle)


def _lock_file(path: Path) -> Path:
    real = path.resolve()
    return real.with_name(f"{real.name}.lock")


def _try_lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


def _read_owner(handle: int) -> Owner:
    try:
        return msgspec.json.decode(os.pread(handle, _MAX_BYTES, 0), type=Owner)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return Owner()
