"""A router in a folder whose files can be taken away, each for itself, and what it must not lose."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from functools import partial
from pathlib import Path

import pytest

from router.contract.keys import make_key
from tests.conftest import SIMULATED
from tests.tools.http import Reply, call, chat
from tests.tools.waiting import until

PRICED = SIMULATED.replace("adapter: simulated\n", "adapter: simulated\n        price: {input: 1, output: 2}\n")
CONFIG = (
    f"{PRICED.replace('test.db', 'tandem.db')}store: {{path: responses.db}}\nmetrics: {{on: true}}\nkeys: {{file: keys.yaml}}\n"
)
FILES = {"ledger": "tandem.db", "responses": "responses.db", "jobs": "jobs.db"}
READ = {"keys": "keys.yaml"}
GROUPS = [("ledger",), ("responses", "jobs")]
CAUSES = {
    "full": "the disk is full",
    "limited": "disk I/O error",
    "read-only": "Read-only file system",
    "immutable": "Permission denied|Operation not permitted|disk I/O error",
    "gone": "No such file or directory|its folder was moved or deleted",
    "blocked": "Is a directory",
    "locked": "another program has locked it",
}
CANNOT_MOUNT = subprocess.run(
    ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
).returncode
READ_IDS = "import sqlite3, sys\nprint(*(row[0] for row in sqlite3.connect(sys.argv[1], timeout=30).execute('SELECT id FROM entries')))"
START = """
import sys
from router.stores.sqlite import files
files.WRITE_SECONDS = files.RETRY_SECONDS = 0.2
from router.wiring import key_watch
key_watch.LOOK_SECONDS = 0.1
from router.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""A router that waits less for a lock and until its next try."""
Fault = Callable[["Place", str], contextlib.AbstractContextManager[None]]


class Place:
    """A router's folder. Each file is in a folder of its own, which a link leads to."""

    def __init__(self, folder: Path, own: tuple[str, ...] = (), root: str = "") -> None:
        self.folder, self._own, self._root = folder, own, root

    def prepare(self, filled: Path | None = None) -> None:
        """`filled`: where another router has kept something."""
        for store, name in (FILES | READ).items():
            (self.folder / store).mkdir(exist_ok=True)
            (self.folder / name).symlink_to(self.folder / store / name)
            if filled is not None and (filled / name).exists():
                shutil.copy(filled / name, self.file_of(store))
        (self.folder / "config.yaml").write_text(CONFIG)

    def write_keys(self) -> dict[str, dict[str, str]]:
        """Returns the headers of each caller."""
        keys = {name: make_key() for name in ("ann", "bob")}
        rights = {"ann": "daily_usd: 100", "bob": "admin: true"}
        lines = [
            f"  {name}: {{{rights[name]}, keys: [{{id: '{key.id}', sha256: {key.digest.hex()}, created: 2026-11-16}}]}}"
            for name, key in keys.items()
        ]
        self.file_of("keys").write_text("\n".join(["callers:", *lines, ""]))
        self.file_of("keys").chmod(0o600)
        return {name: {"authorization": f"Bearer {key.text}"} for name, key in keys.items()}

    def folder_of(self, store: str) -> Path:
        """As this process sees it."""
        return Path(f"{self._root}{self.folder / store}")

    def file_of(self, store: str) -> Path:
        return self.folder_of(store) / (FILES | READ)[store]

    def run(self, *command: str) -> str:
        return subprocess.run([*self._own, *command], check=True, capture_output=True, text=True).stdout

    def run_tandem(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [*self._own, sys.executable, "-m", "router.cli", *arguments, "--config", str(self.folder / "config.yaml")]
        return subprocess.run(command, capture_output=True, text=True, env=self._environment() | variables)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder / "state")}

    def read_ids(self) -> set[str]:
        """Of the requests in the ledger. SQLite follows links itself, so this must run where the router does."""
        return set(self.run(sys.executable, "-c", READ_IDS, str(self.folder / FILES["ledger"])).split())

    @contextlib.asynccontextmanager
    async def serve(self, headers: dict[str, dict[str, str]]) -> AsyncIterator["Router"]:
        command = [
            *self._own,
            sys.executable,
            "-c",
            START,
            "serve",
            "--config",
            str(self.folder / "config.yaml"),
            "--port",
            "0",
        ]
        log = self.folder / "log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(*command, "--log", "json", stderr=file, env=self._environment())
        try:
            await until(lambda: b"server.started" in log.read_bytes() or process.returncode is not None, 60)
            assert process.returncode is None, log.read_text()
            yield Router(headers, process.pid, int(re.search(rb"http://127\.0\.0\.1:(\d+)", log.read_bytes())[1]))
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


class Router:
    def __init__(self, headers: dict[str, dict[str, str]], pid: int, port: int) -> None:
        self._headers, self.pid, self._port = headers, pid, port

    async def ask(self, path: str, body: object = None, caller: str = "bob") -> Reply:
        return await call(self._port, path, body, headers=self._headers[caller])

    async def read(self, path: str) -> dict:
        return json.loads((await self.ask(path)).body)

    async def find_down(self) -> set[str]:
        figures = (await self.ask("/metrics")).body.decode()
        return set(re.findall(r'^tandem_store_up\{store="(\w+)"\} 0', figures, re.MULTILINE))


class Kept:
    """What a router accepted, which must not be lost."""

    def __init__(self, place: Place) -> None:
        self.folder, self.headers = place.folder, place.write_keys()
        self.requests, self.responses, self.jobs = set[str](), list[str](), list[str]()

    async def add(self, router: Router) -> None:
        """One of each, all of which must be accepted."""
        for caller in ("ann", "bob"):
            reply = await router.ask("/v1/chat/completions", chat(), caller)
            assert reply.status == 200, reply.body
            self.requests.add(reply.headers["x-tandem-request-id"])
        stored = await router.ask("/v1/responses", {"model": "auto", "input": "hello", "store": True})
        self.responses.append(json.loads(stored.body)["id"])
        assert (await self.add_job(router)).status == 200

    async def add_job(self, router: Router) -> Reply:
        reply = await router.ask("/v1/responses", {"model": "auto", "input": "hello", "background": True})
        if reply.status == 200:
            self.jobs.append(json.loads(reply.body)["id"])
        return reply

    async def are_jobs_over(self, router: Router) -> bool:
        found = [await router.ask(f"/v1/responses/{name}") for name in self.jobs]
        return all(reply.status == 200 and json.loads(reply.body)["status"] == "completed" for reply in found)

    async def check_whole(self, router: Router, place: Place) -> None:
        """Everything is there, and more is accepted."""
        await self.add(router)
        for name in self.responses:
            assert (await router.ask(f"/v1/responses/{name}")).status == 200
        await until(lambda: self.are_jobs_over(router))
        await until(lambda: self.requests <= place.read_ids())
        for name in self.requests:
            assert (await router.ask(f"/tandem/decisions/{name}")).status == 200


def check_refused(reply: Reply, code: str, cause: str) -> None:
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["code"]) == (503, code), error
    assert int(reply.headers["retry-after"]) > 0
    assert re.search(f"{cause}|cannot be read|cannot be opened", error["message"]), error


async def check_away(router: Router, kept: Kept, broken: Collection[str], cause: str, *, is_new: bool) -> None:
    """Each of these stores is refused for itself, with its cause, and nothing else is. `is_new`: the router began without them."""
    for caller in ("ann", "bob"):
        reply = await router.ask("/v1/chat/completions", chat(), caller)
        if caller == "ann" and "ledger" in broken and is_new:
            check_refused(reply, "unavailable", cause)
        else:
            assert reply.status == 200, reply.body
            kept.requests.add(reply.headers["x-tandem-request-id"])
    stored = await router.ask("/v1/responses", {"model": "auto", "input": "hello", "store": True})
    assert stored.status == 200
    kept.responses.append(json.loads(stored.body)["id"])
    reply = await kept.add_job(router)
    if "jobs" in broken:
        check_refused(reply, "jobs_unavailable", cause)
    else:
        assert reply.status == 200, reply.body
    await check_reported(router, broken, cause)
    for path in (
        *(f"/v1/responses/{name}" for name in (*kept.responses, *kept.jobs)),
        f"/tandem/decisions/{min(kept.requests)}",
    ):
        if (found := await router.ask(path)).status != 200:
            check_refused(found, json.loads(found.body)["error"]["code"], cause)


async def check_reported(router: Router, broken: Collection[str], cause: str) -> None:
    """By the metrics, the notices, and a router that stays ready."""
    await until_down(router, broken)
    ready = await router.ask("/readyz")
    away = json.loads(ready.body)["away"]
    assert (ready.status, len(away)) == (200, len(broken))
    assert all(re.search(cause, text) for text in away), away
    assert sorted(away) == sorted(notice["text"] for notice in (await router.read("/tandem/notices"))["notices"])


async def check_back(router: Router) -> None:
    await until_down(router, ())
    assert "away" not in await router.read("/readyz")


async def until_down(router: Router, broken: Collection[str]) -> None:
    """Until these stores are away, and no others."""
    seen: list[set[str]] = []

    async def is_so() -> bool:
        if seen[-1:] != [down := await router.find_down()]:
            seen.append(down)
        return down == set(broken)

    try:
        await until(is_so, 60)
    except AssertionError as error:
        raise AssertionError(f"away should be {set(broken)}, and was {seen}") from error


@contextlib.contextmanager
def full(place: Place, store: str) -> Iterator[None]:
    filling = place.folder_of(store) / "filling"
    with filling.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4_096))
    yield
    filling.unlink()


@contextlib.contextmanager
def read_only(place: Place, store: str) -> Iterator[None]:
    place.run("mount", "-o", "remount,ro", str(place.folder / store))
    yield
    place.run("mount", "-o", "remount,rw", str(place.folder / store))


@contextlib.contextmanager
def gone(place: Place, store: str) -> Iterator[None]:
    folder = place.folder_of(store)
    folder.rename(moved := folder.with_name(f"{store}.moved"))
    yield
    assert not folder.exists()
    moved.rename(folder)


@contextlib.contextmanager
def blocked(place: Place, store: str) -> Iterator[None]:
    file = place.file_of(store)
    file.rename(moved := file.with_name("moved.db"))
    file.mkdir()
    yield
    file.rmdir()
    moved.rename(file)


@contextlib.contextmanager
def locked(place: Place, store: str, mode: str = "NORMAL") -> Iterator[None]:
    """Others cannot write."""
    with contextlib.closing(sqlite3.connect(place.file_of(store), isolation_level=None, timeout=30)) as other:
        other.execute(f"PRAGMA locking_mode = {mode}")
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextlib.contextmanager
def immutable(place: Place, store: str) -> Iterator[None]:
    """Not even files that are open can be written to. SQLite maps the index of its log into memory: that would end the process."""
    folder = place.folder_of(store)
    with (folder / "open").open("wb", buffering=0) as opened:
        try:
            if change_flag("+i", folder):
                pytest.skip("no file can be made immutable here")
            change_flag("+i", *folder.iterdir())  # all there will be: a log that came between list and flag could be written to
            with contextlib.suppress(PermissionError):
                opened.write(b"x")
                pytest.skip("on this file system an immutable file that is open can be written to")
            yield
        finally:
            change_flag("-i", folder, *folder.iterdir())


def change_flag(flag: str, *paths: Path) -> int:
    names = [str(path) for path in paths if not path.name.endswith("-shm")]
    return subprocess.run(["chattr", flag, *names], capture_output=True).returncode


@contextlib.contextmanager
def spoilt(place: Place, store: str) -> Iterator[None]:
    content = (file := place.file_of(store)).read_bytes()
    file.write_bytes(b"{spoilt")
    yield
    file.write_bytes(content)


RUNNING: dict[str, Fault] = {"gone": gone, "blocked": blocked, "locked": locked, "immutable": immutable}
READING: dict[str, Fault] = {"gone": gone, "blocked": blocked, "spoilt": spoilt}
STARTING: dict[str, Fault] = {
    "gone": gone,
    "blocked": blocked,
    "locked": partial(locked, mode="EXCLUSIVE"),
    "full": full,
    "read-only": read_only,
}
