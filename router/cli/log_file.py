"""`tandem serve --log-file`: a log of limited size, where no service manager keeps one.

Workers write to one open file, so it is copied and emptied instead of renamed.
"""

import asyncio
import fcntl
import os
import shutil
import sys
from pathlib import Path

from router.cli import Ended

MAX_BYTES = 10_000_000
_KEPT = 3
_LOOK_SECONDS = 60.0


def write_to(path: Path) -> None:
    """Send standard output and standard error to a file from now on. Raises `Ended`."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise Ended(2, f"--log-file: {path} cannot be written ({error.strerror})") from error
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(file, stream.fileno())
    os.close(file)
    rotate(path)


async def keep_small(path: Path) -> None:
    """Look at the file every minute, for as long as the router runs."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.to_thread(rotate, path)


def rotate(path: Path) -> None:
    """Empty a file that is too large, after a copy with `.1` at its end. The last three copies are kept."""
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another worker is at it
        if os.fstat(file.fileno()).st_size < MAX_BYTES:
            return
        copies = [path.with_name(f"{path.name}.{number}") for number in range(1, _KEPT + 1)]
        for older, newer in zip(copies[:0:-1], copies[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)
        descriptor = os.open(copies[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as copy:
            shutil.copyfileobj(file, copy)
        file.truncate(0)
