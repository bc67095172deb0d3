"""A stand-in for systemd: listens at the address of a socket unit, and starts its service with the first connection."""

import select
import shlex
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
own = str(os.getpid())
os.execve(sys.argv[2], sys.argv[2:], {**os.environ, "LISTEN_FDS": "1", "LISTEN_PID": own, "SYSTEMD_EXEC_PID": own})
"""


class Systemd:
    """Starts the service again with the next connection after its end."""

    def __init__(self, folder: Path) -> None:
        self._unit, listens = (_read(folder / f"tandem.{kind}") for kind in ("service", "socket"))
        host, _, port = listens["ListenStream"].rpartition(":")
        self._listener, (self._wakes, self._woken) = socket.create_server((host, int(port))), socket.socketpair()
        self._thread = threading.Thread(target=self._watch)
        self._child: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.log = folder / "log"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wakes.close()
        if self._child is not None:
            self._child.terminate()
        self._thread.join()
        self._woken.close()
        self._listener.close()

    def _watch(self) -> None:
        command = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(self._unit["ExecStart"])]
        passed = self._listener.fileno()
        while self._woken not in select.select([self._listener, self._woken], [], [])[0]:
            self.starts += 1
            with self.log.open("ab") as log:
                self._child = subprocess.Popen(
                    [sys.executable, "-c", _START, str(passed), *command],
                    cwd=self._unit["WorkingDirectory"],
                    pass_fds=[passed],
                    stderr=log,
                )
            self._child.wait()


def _read(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line and not line.startswith("#"))
