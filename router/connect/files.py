"""Reading and writing a person's files: marks at the start, links, permissions and other programs are left as they are."""

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from router.connect.formats import CannotEdit

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Content:
    """A file as it is: its bytes, and its text without a byte order mark. Both are None for a file that is absent."""

    raw: bytes | None
    text: str | None

    def with_text(self, text: str | None) -> bytes | None:
        """The bytes that the file would have with another text."""
        if text is None:
            return None
        return (_MARK if self.raw is not None and self.raw.startswith(_MARK) else b"") + text.encode()


def read(path: Path) -> Content:
    """A file. Raises `CannotEdit` for one that is no text, and `OSError`."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Content(None, None)
    try:
        return Content(raw, raw.removeprefix(_MARK).decode())
    except UnicodeDecodeError as error:
        raise CannotEdit("this is not UTF-8 text", raw.count(b"\n", 0, error.start) + 1) from error


def write(path: Path, raw: bytes) -> list[Path]:
    """Write a file whole or not at all, and answer the folders that were made for it. A link stays a link."""
    path = Path(os.path.realpath(path))
    made = make_folders(path.parent)
    mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
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
    """Delete a file, behind a link too; the link stays."""
    Path(os.path.realpath(path)).unlink(missing_ok=True)


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; answers those that were not there, innermost first."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def remove_folders(folders: list[Path]) -> None:
    """Remove folders, innermost first, as far as they are empty."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _umask() -> int:
    """The umask can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
