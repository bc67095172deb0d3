"""A Valkey or Redis server for this run, on a Unix socket in a temporary folder, without disk writes."""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from router.contract.secret import Secret
from router.contract.shared import ValkeyTerms

START_SECONDS = 30.0
LOCKED_USER, PASSWORD = "locked", "s3cret"
_DYING = ["setpriv", "--pdeathsig=KILL"] if shutil.which("setpriv") else []
"""No server outlives a killed run."""
_PROGRAMS = ("valkey-server", "redis-server")


def find_server() -> str | None:
    """None where there is none, or where this run is to do without."""
    return (
        None
        if "TANDEM_TEST_WITHOUT_STORES" in os.environ
        else next((path for name in _PROGRAMS if (path := shutil.which(name))), None)
    )


class ValkeyServer:
    """A user `locked` needs a password; the default one needs none."""

    def __init__(self, program: str) -> None:
        self._program = program
        self.folder = Path(tempfile.mkdtemp(prefix="tandem-vk-"))
        self.socket = self.folder / "socket"
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        settings = ["--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no"]
        users = ["--user", LOCKED_USER, "on", f">{PASSWORD}", "~*", "&*", "+@all"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_DYING, self._program, *settings, *users], stdout=log, stderr=log, cwd=self.folder
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            is_coming = self._process.poll() is None and time.monotonic() < deadline
            assert is_coming, (self.folder / "log").read_text()
            time.sleep(0.01)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(START_SECONDS)
            try:
                client.connect(str(self.socket))
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith(b"+PONG")
            except OSError:
                return False

    def url(self, user: str = "", password: str = "") -> str:
        account = f"{user}:{password}@" if password else ""
        return f"unix://{account}{self.socket}"

    def terms(self, timeout_seconds: float = 10.0, url: str = "") -> ValkeyTerms:
        """Terms with keys of their own, and patience for a slow test machine."""
        return ValkeyTerms(Secret(url or self.url()), round(timeout_seconds * 1_000), f"test{next(self._numbers)}")

    def send(self, *words: str | bytes) -> bytes:
        import hiredis

        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(START_SECONDS)
            client.connect(str(self.socket))
            client.sendall(hiredis.pack_command(words))
            return client.recv(1 << 16)

    def pause(self) -> None:
        """Suspend its process. The system still accepts connections for it."""
        os.kill(self._pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def _pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(START_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)
