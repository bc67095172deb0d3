"""A PostgreSQL server for this run, in a temporary folder on a Unix socket, without disk syncs."""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from router.contract.secret import Secret
from router.contract.shared import PostgresTerms
from router.stores.postgres.jobs import PostgresJobs

START_SECONDS = 30.0
LOCKED_USER, PASSWORD = "locked", "s3cret"
_SETTINGS = {"fsync": "off", "listen_addresses": "", "max_connections": "60", "shared_buffers": "16MB", "autovacuum": "off"}
_UNPRIVILEGED = ("postgres", "nobody")


def find_binaries() -> Path | None:
    """None where there is no server, or where this run is to do without."""
    if "TANDEM_TEST_WITHOUT_STORES" in os.environ:
        return None
    found = [Path(path).resolve() for path in (shutil.which("postgres"),) if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]), reverse=True)
    return next((path.parent for path in found if (path.parent / "initdb").exists()), None)


class PostgresServer:
    """A user `locked` needs a password; the others need none."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="tandem-pg-"))
        self._data, self._numbers = self.folder / "data", itertools.count(1)
        self._process: subprocess.Popen | None = None
        self._as_user: list[str] = []
        self._used = ""
        if os.geteuid() == 0:  # the server refuses to run as root
            names = [entry.pw_name for entry in pwd.getpwall()]
            user = next(name for name in _UNPRIVILEGED if name in names)
            shutil.chown(self.folder, user)
            self._as_user = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
        self._run(
            "initdb", "--no-sync", "--auth=trust", "--username=tandem", "--encoding=UTF8", "--locale=C", "-D", str(self._data)
        )
        hba = self._data / "pg_hba.conf"
        hba.write_text(f"local all {LOCKED_USER} scram-sha-256\n{hba.read_text()}")

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_user, str(self._binaries / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Return when it accepts connections. After a kill, its last processes may have to end first."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
            death = ["--pdeathsig=KILL"] if self._as_user else []  # no server outlives a killed run
            command = [*self._as_user, *death, str(self._binaries / "postgres"), "-D", str(self._data), "-k", str(self.folder)]
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen([*command, *settings], stdout=log, stderr=log, cwd=self.folder)
            ready = [str(self._binaries / "pg_isready"), "-q", "-h", str(self.folder)]
            while self._process.poll() is None and time.monotonic() < deadline:
                if subprocess.run(ready).returncode == 0:
                    return
                time.sleep(0.02)
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.1)

    def url(self, database: str = "postgres", user: str = "tandem", password: str = "") -> str:
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    async def create(self) -> str:
        """The address of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        await self.ask(self.url(), f"CREATE DATABASE {name} STRATEGY file_copy")
        return self.url(name)

    async def create_used(self, *, is_empty: bool = True) -> str:
        """One reused database with existing, empty tables: creating one takes 0.1 s."""
        if not self._used:
            self._used = await self.create()
        elif is_empty and await self.ask(self._used, "SELECT to_regclass('tandem.jobs') IS NOT NULL AS is_there") == [(True,)]:
            tables = "jobs, segments, outbox, responses, items, entries".split(", ")
            await self.ask(self._used, f"TRUNCATE {', '.join(f'tandem.{name}' for name in tables)} RESTART IDENTITY")
        return self._used

    @asynccontextmanager
    async def refusing(self, url: str) -> AsyncIterator[None]:
        """Cut all connections to a database, and refuse new ones."""
        name = url.partition("@/")[2].partition("?")[0]
        await self.ask(self.url(), f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await self.ask(self.url(), "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1", name)
        yield
        await self.ask(self.url(), f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    @staticmethod
    async def ask(url: str, statement: str, *values: object) -> list:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(statement, *values)]
        finally:
            await connection.close()

    def signal_all(self, number: int) -> None:
        assert self._process is not None
        children = [path.name for path in Path("/proc").glob("[0-9]*") if _parent_of(path) == self._process.pid]
        for pid in (self._process.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        assert self._process is not None
        self.signal_all(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(START_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)


def _parent_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def make_terms(url: str, timeout_seconds: float = 10.0, connections: int = 4) -> PostgresTerms:
    """Terms with patience for a slow test machine."""
    return PostgresTerms(Secret(url), round(timeout_seconds * 1_000), connections)


def open_postgres_jobs(url: str, failures: list, clock) -> PostgresJobs:
    return PostgresJobs(
        make_terms(url), keep_seconds=86_400.0, on_failure=lambda reason: failures.append((reason, 0)), clock=clock
    )
