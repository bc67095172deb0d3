"""A random key in a file that only its owner can read. It outlives restarts."""

import contextlib
import os
import tempfile
from pathlib import Path

_KEY_BYTES = 32


def read_key(path: Path) -> bytes:
    """The key, which is made where there is none. Where no file can be kept, it is one that only this process knows."""
    new = os.urandom(_KEY_BYTES)
    with contextlib.suppress(OSError):
        if not path.exists():
            _create(path, new)
        found = path.read_bytes()
        if len(found) == _KEY_BYTES:
            return found
    return new


def _create(path: Path, key: bytes) -> None:
    """Put a whole file there at once, unless another process was first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # for its owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(key)
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)
