"""Whether a file is damaged: checked at every start, in a thread of its own, and in full by `tandem check --live`.

A start waits for the check only as long as a small file takes. A large one is checked on while the router serves, and damage is
then reported as any failure of the file is.
"""

import contextlib
import glob
import shlex
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from router.contract.stores import StoreUnusable
from router.stores.sqlite.files import connect, connect_to_read

_DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_COPIES = ("-wal", "-shm", "-journal", ".part")
"""What is next to a copy while it is made, or open."""
_WAIT_SECONDS = 5.0
"""How long a check waits for a file that somebody has locked whole."""
DAMAGED = "Damaged"
"""The reason that is reported for damage that is found while the router serves."""


class StoreDamaged(StoreUnusable):
    """The file is damaged. `copy` is the newest copy that is not, if there is one."""

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(f"{path} is damaged: {fault}")
        self.path, self.copy = path, find_sound_copy(path)

    @property
    def hint(self) -> str:
        path = self.path
        file, log, index = (shlex.quote(str(path.with_name(path.name + end))) for end in ("", "-wal", "-shm"))
        aside = f"mv {file} {shlex.quote(f'{path}.damaged')} && rm -f {log} {index}"
        if self.copy is None:
            return f"there is no copy of it. This moves it away, and the next start makes a new one:\n  {aside}"
        use = f"cp -p {shlex.quote(str(self.copy))} {file}"
        return f"the newest copy is {self.copy}. This puts it in place:\n  {aside} && {use}"


def find_copies(path: Path) -> list[Path]:
    """The copies that migrations kept of a file, the newest first."""
    found = (file for file in path.parent.glob(f"{glob.escape(path.name)}.before-*") if not file.name.endswith(_NO_COPIES))
    return sorted(found, key=lambda copy: copy.stat().st_mtime, reverse=True)


def find_sound_copy(path: Path) -> Path | None:
    """The newest copy that can be used in the place of a file."""
    for copy in find_copies(path):
        with contextlib.suppress(sqlite3.Error, OSError):
            if not find_damage(copy):
                return copy
    return None


def find_damage(path: Path, *, in_full: bool = False) -> str:
    """What is wrong with a file; empty for a sound one. `in_full` compares every index with its table, too."""
    with contextlib.closing(connect_to_read(path, _WAIT_SECONDS)) as database:
        return read_damage(database, in_full=in_full)


def read_damage(database: sqlite3.Connection, *, in_full: bool = False) -> str:
    """What is wrong with an open file. Raises `sqlite3.Error` where it cannot be checked now."""
    try:
        row = database.execute(f"PRAGMA {'integrity' if in_full else 'quick'}_check(1)").fetchone()
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            return str(error)
        raise
    return "" if row is None or row[0] == "ok" else str(row[0]).replace("\n", " ")


def is_damage(error: BaseException) -> bool:
    """Whether an error says that the file is broken, and not that it is locked or full."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED_CODES


class Checkup:
    """One quick check of a file, in a thread. It ends with the check, or when somebody needs the file to be let go."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._is_stopped = False
        self._report: Callable[[str], None] | None = None
        self._damage: str | None = None
        """What was found; None while the check runs."""
        self._thread = threading.Thread(target=self._run, name=f"check {path.name}", daemon=True)
        self._thread.start()

    def wait(self, seconds: float, report: Callable[[str], None]) -> str:
        """The damage that is found within some time; empty for none. What is found later is reported."""
        self._thread.join(seconds)
        with self._lock:
            if self._damage is None:
                self._report = report
            return self._damage or ""

    @contextlib.contextmanager
    def held_shut(self) -> Iterator[None]:
        """End the check, and with it this connection to the file."""
        self.stop()
        yield

    def stop(self) -> None:
        """End the check where it is."""
        with self._lock:
            self._is_stopped = True
            if self._database is not None:
                self._database.interrupt()
        self._thread.join()

    def _run(self) -> None:
        damage = ""
        with contextlib.suppress(sqlite3.Error, OSError):  # interrupted, or it cannot be read now: the writer says why
            database = connect(self._path, _WAIT_SECONDS)  # one that may not write would leave its log behind
            with contextlib.closing(database):
                with self._lock:
                    if self._is_stopped:
                        return
                    self._database = database
                try:
                    damage = read_damage(database)
                finally:
                    with self._lock:
                        self._database = None
        with self._lock:
            self._damage, report = damage, self._report
        if damage and report is not None:
            report(damage)
