"""A program in a process group of its own, so that everything it starts ends with it."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from router.cli.orphans import end_with_parent

_GRACE_SECONDS = 5.0
"""How long a program may take to end by itself when it is asked to."""
_LOOK_SECONDS = 0.02


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
        preexec_fn=end_with_parent,  # noqa: PLW1509  there are no threads that it could harm
    )


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
