"""Reading and writing a person's files, keeping byte order marks, links and permissions."""

import contextlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from router.connect.formats import CannotEdit

_MARK = b"\xef\xbb\xbf"
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, and its text without a byte order mark; None if it is absent."""

    raw: bytes | None
    text: str | None

    def with_text(self, text: str | None) -> bytes | None:
        if text is None:
            return None
        return (_MARK if self.raw is not None and self.raw.startswith(_MARK) else b"") + text.encode()


def read(path: Path) -> Content:
    """Raises `CannotEdit` if the file is not text, and `OSError`."""
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # reading would block until someone writes
            raise CannotEdit("this is a named pipe, not a file")
        raw = path.read_bytes()
    except FileNotFoundError:
        return Content(None, None)
    try:
        return Content(raw, raw.removeprefix(_MARK).decode())
    except UnicodeDecodeError as error:
        raise CannotEdit("this is not UTF-8 text", raw.count(b"\n", 0, error.start) + 1) from error


def write(path: Path, raw: bytes, *, private: bool = False) -> list[Path]:
    """Write a file atomically, and return the folders created for it. A link stays a link.

    Root keeps files' owners; new ones get their folder's. New and `private` files are readable by the owner alone: clients'
    settings hold keys sooner or later.
    """
    path = Path(os.path.realpath(path))
    made = make_folders(path.parent)
    mode = path.stat().st_mode & 0o7777 if path.exists() and not private else _PRIVATE_FILE
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
            if os.geteuid() == 0:
                like = path.stat() if path.exists() else path.parent.stat()
                os.fchown(descriptor, like.st_uid, like.st_gid)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return made


def remove(path: Path) -> None:
    """Delete a file; of a link, its target."""
    Path(os.path.realpath(path)).unlink(missing_ok=True)


def make_folders(folder: Path) -> list[Path]:
    """Returns the new folders, innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
    return missing


def make_private(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(_PRIVATE_FOLDER if path.is_dir() else _PRIVATE_FILE)


def remove_folders(folders: list[Path]) -> None:
    """Remove empty folders, innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
