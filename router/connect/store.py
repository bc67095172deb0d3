"""Records of what was changed for each client, with copies of the original files.

The copies may hold keys: everything is readable by its owner alone.
"""

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from router.connect import files
from router.connect.formats import Memo


class Busy(Exception):
    """Another `tandem connect` is running."""


@dataclass(frozen=True, slots=True)
class Entry:
    format: str
    existed: bool
    memo: Memo
    backup: str = ""


@dataclass(slots=True)
class Record:
    entries: dict[str, Entry] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    key_env: str = ""
    """The variable with the person's key, if any."""
    has_mcp: bool = False
    keeps_login: bool = False


class Store:
    """All records, one folder per connected client."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, client: str) -> Record:
        """Empty if missing or damaged. Raises `OSError` where one may exist: without it, originals would not be restored."""
        try:
            told = json.loads((self._folder / client / "record.json").read_bytes())
            entries = {path: Entry(**entry) for path, entry in told["files"].items()}
            flags = bool(told.get("has_mcp")), bool(told.get("keeps_login"))
            return Record(entries, list(told["folders"]), str(told.get("key_env", "")), *flags)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return Record()

    def keep_copy(self, client: str, name: str, raw: bytes) -> str:
        folder = self._folder / client
        taken = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
        copy = next(free for free in (f"{number}-{name}" for number in range(len(taken) + 1)) if free not in taken)
        files.write(folder / copy, raw)
        return copy

    def keep_own(self, client: str, name: str, text: str) -> None:
        files.write(self._folder / client / name, text.encode())

    def drop_own(self, client: str, name: str) -> None:
        (self._folder / client / name).unlink(missing_ok=True)

    def read_copy(self, client: str, name: str) -> bytes | None:
        with contextlib.suppress(OSError):
            return (self._folder / client / name).read_bytes() if name else None
        return None

    def save(self, client: str, record: Record) -> None:
        entries = {
            path: {"format": entry.format, "existed": entry.existed, "memo": entry.memo, "backup": entry.backup}
            for path, entry in record.entries.items()
        }
        told: dict[str, object] = {"files": entries, "folders": record.folders}
        more = {"key_env": record.key_env, "has_mcp": record.has_mcp, "keeps_login": record.keeps_login}
        told |= {name: value for name, value in more.items() if value}
        files.write(self._folder / client / "record.json", json.dumps(told, indent=1, ensure_ascii=False).encode())

    def forget(self, client: str, kept: list[str]) -> None:
        folder = self._folder / client
        if kept:
            (folder / "record.json").unlink(missing_ok=True)
            for copy in folder.iterdir():
                if copy.name not in kept:
                    copy.unlink()
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def copies(self, client: str) -> list[Path]:
        """Newest last, even without a record."""
        folder = self._folder / client
        found = [entry for entry in folder.iterdir() if entry.name[:1].isdigit()] if folder.is_dir() else []
        return sorted(found, key=lambda entry: int(entry.name.partition("-")[0]))

    def path_of(self, client: str, copy: str) -> Path:
        return self._folder / client / copy

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Raises `Busy` if it is locked, and `OSError`.

        The lock file lists the folders created for the store, which go once it is empty. Permissions left open by older
        versions are fixed.
        """
        made = files.make_folders(self._folder)
        files.make_private(self._folder)
        lock = self._folder / "lock"
        lock.touch(mode=0o600)
        with lock.open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Busy("another tandem connect is running") from error
            file.writelines(f"{folder}\n" for folder in made)
            try:
                yield
            finally:
                if [entry.name for entry in self._folder.iterdir()] == ["lock"]:
                    file.seek(0)
                    folders = [Path(line) for line in file.read().splitlines()]
                    lock.unlink()
                    files.remove_folders(folders)
