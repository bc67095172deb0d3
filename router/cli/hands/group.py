"""A program in a process group of its own, so that everything it starts ends with it."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_GRACE_SECONDS = 5.0
"""How long a program may take to end by itself when it is asked to."""
_LOOK_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def start_group(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], output: IO[bytes], errors: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a program as the leader of a group, without a terminal and without input. Raises `OSError`."""
    return subprocess.Popen(  # noqa: S603  the command is from the config, and goes through no shell
        list(command),
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        start_new_session=True,
        preexec_fn=_end_with_parent if _prctl is not None else None,  # noqa: PLW1509  there are no threads that it could harm
    )


def _end_with_parent() -> None:
    """Have the program asked to end when its parent is killed. What the program has started is left to it."""
    assert _prctl is not None
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def end_group(leader: subprocess.Popen[bytes], grace_seconds: float = _GRACE_SECONDS) -> None:
    """End a program and all that it has started: politely first, then at once."""
    until = time.monotonic() + grace_seconds
    if not _send(leader.pid, signal.SIGTERM):
        leader.wait()
        return
    while time.monotonic() < until:
        leader.poll()  # one that has ended and was not waited for counts as there
        if not _send(leader.pid, 0):
            return
        time.sleep(_LOOK_SECONDS)
    _send(leader.pid, signal.SIGKILL)
    leader.wait()


def _send(group: int, number: int) -> bool:
    """Send a signal to a group; False where nobody is left in it."""
    with contextlib.suppress(PermissionError):  # somebody is there who runs as another user
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return False
    return True
