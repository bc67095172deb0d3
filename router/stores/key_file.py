"""A random key in a file that only its owner can read."""

import contextlib
import os
import tempfile
from pathlib import Path

from router.stores.folders import make_folders

_KEY_BYTES = 32


def read_key(path: Path) -> bytes:
    """Read or create the key. Where no file can be kept, it lasts as long as this process."""
    new = os.urandom(_KEY_BYTES)
    with contextlib.suppress(OSError):
        if not path.exists():
            _create(path, new)
        found = path.read_bytes()
        if len(found) == _KEY_BYTES:
            return found
    return new


def _create(path: Path, key: bytes) -> None:
    """Create the file atomically, unless another process was first."""
    make_folders(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(key)
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)
