"""Writes `keys.yaml` whole, in one form."""

import contextlib
import errno
import fcntl
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from router.cli import Ended
from router.cli.common import say
from router.config.key_file import KeyFile, parse_keys, read_key_file, write_keys
from router.config.reading import read_config
from router.connect import files

_FIRST_LINE = "# Callers, what each may do, and digests of their keys."
_HEADER = f"{_FIRST_LINE} `tandem keys` writes this file, and keeps comments only above `callers`."


def change_key_file(path: Path, change: Callable[[KeyFile], KeyFile]) -> KeyFile:
    """Change or create a key file, under a lock, and keep the old one. Raises `ConfigError`, `Ended` and `OSError`."""
    path = path.resolve()
    kept = path.with_name(f"{path.name}.before")
    with _locked(path.parent) as folder:
        old = _read_text(path)
        after = change(read_key_file(path) if old is not None else KeyFile())
        new, loses_comments = _write(old or "", after)
        parse_keys(new, str(path))  # it may be too large now
        if _read_text(path) != old:
            raise Ended(1, f"{path}: another program changed the file at the same moment: try again")
        if old is not None:
            if os.geteuid() not in (0, path.stat().st_uid):  # the router could no longer read it
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
            files.write(kept, old.encode(), private=True)
            kept.chmod(path.stat().st_mode & 0o777)
        files.write(path, new.encode())
        with contextlib.suppress(OSError):
            os.fsync(folder)  # a key that was handed out must survive a power cut
    say(f"wrote {path}" if old is None else f"wrote {path}; the old file is {kept}")
    if loses_comments:
        say('  its comments below "callers" were not kept: they are in the old file')
    return after


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Lock the folder, since the file is replaced; yields its handle."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _read_text(path: Path) -> str | None:
    return read_config(path)[0] if path.exists() else None


def _write(old: str, file: KeyFile) -> tuple[str, bool]:
    """The new text, and whether a comment of the old one is not in it. No value can have a `#`."""
    lines = old.splitlines()
    head = list(itertools.takewhile(lambda line: not line.strip() or line.startswith("#"), lines))
    own = (line for line in head if not line.startswith(_FIRST_LINE))
    return "\n".join([_HEADER, *own, write_keys(file)]), any("#" in line for line in lines[len(head) :])
