"""Names of processes that own jobs. A name tells a process from all others of its machine, before it and after it."""

import os
import socket
from functools import cache
from pathlib import Path

_STARTED = 19
"""Which word after a process's name in `/proc/PID/stat` is its start, in ticks since the machine's own."""


@cache
def name_owner() -> str:
    """The name of this process: machine, process id, and when it began."""
    return f"{socket.gethostname()}:{os.getpid()}:{_read_start(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Whether an owner is known to have ended. Of another machine's, nothing is known."""
    host, pid, start = owner.rsplit(":", 2) if owner.count(":") > 1 else ("", "", "")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False  # it is somebody else's
    return _read_start(int(pid)) != start


def _read_start(pid: int) -> str:
    """When a process began; empty where the system does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[_STARTED]
