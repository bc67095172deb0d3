"""Names of processes that own jobs, unique per machine even when process ids are reused."""

import os
import socket
from functools import cache
from pathlib import Path

_STARTED = 19
"""The start time's place after the process name in `/proc/PID/stat`, in clock ticks since boot."""


@cache
def name_owner() -> str:
    """Machine, process id and start time of this process."""
    return f"{socket.gethostname()}:{os.getpid()}:{_read_start(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Whether an owner has surely ended. Other machines' processes are unknown."""
    host, pid, start = owner.rsplit(":", 2) if owner.count(":") > 1 else ("", "", "")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False  # another user's process
    return _read_start(int(pid)) != start


def _read_start(pid: int) -> str:
    """Empty where the system does not report it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[_STARTED]
