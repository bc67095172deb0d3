"""A Valkey or Redis server for a group of workers, on a Unix socket of their user.

It writes nothing to disk: it holds the last hour's answers, which may not be in files unless the config says so.
"""

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from router.cli.orphans import end_with_parent
from router.config.folders import NoHome, state_folder
from router.stores.folders import make_folders

PROGRAMS = ("valkey-server", "redis-server")
MAX_MEMORY = "512mb"
_FOLDER, _SOCKET, _LOCK, _LOG = "workers", "socket", "lock", "log"
_PREFIX = "tandem-workers-"
_MAX_PATH = 100
"""Socket paths are limited to 104 to 108 bytes."""
_START_SECONDS, _STOP_SECONDS, _PAUSE_SECONDS = 10.0, 5.0, 0.01


class CannotStart(Exception):
    """The message ends with the server's own last line."""


def find_program() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class OwnValkey:
    def __init__(self, program: str) -> None:
        """Raises `OSError`, and `CannotStart` if every path is too long."""
        self._program = program
        self.folder = _make_folder()
        self.socket = self.folder / _SOCKET
        # Held until the last worker ends: a free lock is left over from a killed group.
        self._lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}"

    @property
    def pid(self) -> int:
        """0 before the start."""
        return self._process.pid if self._process is not None else 0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers. Raises `CannotStart`."""
        settings = ["--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "600"]
        settings += ["--save", "", "--appendonly", "no"]
        # Entries that expire soonest go first: the last hour's answers, long before limits, which are kept for days.
        settings += ["--maxmemory", MAX_MEMORY, "--maxmemory-policy", "volatile-ttl", "--maxmemory-samples", "64"]
        settings += ["--dir", str(self.folder)]
        with (self.folder / _LOG).open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  from the path, as the user would start it
                [self._program, *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for the workers, which need the server until they end
                preexec_fn=end_with_parent,  # noqa: PLW1509  the parent has one thread
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if not self.is_running or time.monotonic() > deadline:
                raise CannotStart(f"{self._program} does not start: {self._read_last_line()}")
            time.sleep(_PAUSE_SECONDS)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_START_SECONDS)
            try:
                client.connect(str(self.socket))
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith(b"+PONG")
            except OSError:
                return False

    def _read_last_line(self) -> str:
        lines = (self.folder / _LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _make_folder() -> Path:
    try:
        parent = state_folder() / _FOLDER
        make_folders(parent)
        if (made := _make_short(parent, "")) is not None:
            return made
    except (NoHome, OSError):
        pass
    parent = Path(tempfile.gettempdir())
    if (made := _make_short(parent, _PREFIX)) is None:
        raise CannotStart(f"{parent} is too long for the path of a socket; set TMPDIR to a folder with a shorter path")
    return made


def _make_short(parent: Path, prefix: str) -> Path | None:
    """None if its socket's path would be too long. Raises `OSError`."""
    _remove_stale(parent, prefix)
    made = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    if len(os.fsencode(made / _SOCKET)) <= _MAX_PATH:
        return made
    made.rmdir()
    return None


def _remove_stale(parent: Path, prefix: str) -> None:
    """Remove folders of killed groups, whose locks are free."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            if folder.lstat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("rb") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
