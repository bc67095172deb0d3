"""The locks that a process has on a file, as the system lists them."""

import os
from pathlib import Path

import pytest


def locks_on(path: Path, pid: int | None = None) -> list[tuple[str, ...]]:
    """Kind and range of each lock that a process (by default this one) has on a file. Skips where the system has no list."""
    listed = Path("/proc/locks")
    if not listed.exists():
        pytest.skip("the system lists no locks")
    owner, inode = str(pid or os.getpid()), str(path.stat().st_ino)
    lines = [line.split() for line in listed.read_text().splitlines()]
    return sorted(tuple(line[3:4] + line[6:]) for line in lines if line[4] == owner and line[5].rpartition(":")[2] == inode)
