"""Files that cannot be used, each for itself: what they hold is never reported as missing, no accepted job is lost, the cause is
named in answers and figures, and each recovers by itself.

| fault | at the start | while running |
|---|---|---|
| full | a file system without room | a limit on file sizes, for all files at once |
| read-only | a file system mounted so | (files that are open for writing keep a file system writable) |
| gone, blocked, locked | ledger alone; responses and jobs | ledger alone; responses and jobs |

Each is asked by a caller with a budget and by one without.
"""

import asyncio
import contextlib
import json
import re
import resource
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
GROUPS = [("ledger",), ("responses", "jobs")]
CAUSES = {
    "full": "the disk is full",
    "limited": "disk I/O error",
    "read-only": "Read-only file system",
    "gone": "No such file or directory|its folder was moved or deleted",
    "blocked": "Is a directory",
    "locked": "another program has locked it",
}
CANNOT_MOUNT = subprocess.run(
    ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
).returncode
READ_IDS = "import sqlite3, sys\nprint(*(row[0] for row in sqlite3.connect(sys.argv[1], timeout=30).execute('SELECT id FROM entries')))"
Fault = Callable[["Place", str], contextlib.AbstractContextManager[None]]


class Place:
    """A router's folder. Each file is in a folder of its own, which a link leads to."""

    def __init__(self, folder: Path, own: tuple[str, ...] = (), root: str = "") -> None:
        self.folder, self._own, self._root = folder, own, root

    def prepare(self) -> None:
        keys = {name: make_key() for name in ("ann", "bob")}
        self.headers = {name: {"authorization": f"Bearer {key.text}"} for name, key in keys.items()}
        rights = {"ann": "daily_usd: 100", "bob": "admin: true"}
        lines = [
            f"  {name}: {{{rights[name]}, keys: [{{id: '{key.id}', sha256: {key.digest.hex()}, created: 2026-11-16}}]}}"
            for name, key in keys.items()
        ]
        (self.folder / "keys.yaml").write_text("\n".join(["callers:", *lines, ""]))
        (self.folder / "keys.yaml").chmod(0o600)
        (self.folder / "config.yaml").write_text(CONFIG)
        for store, name in FILES.items():
            (self.folder / store).mkdir(exist_ok=True)
            (self.folder / name).symlink_to(self.folder / store / name)

    def folder_of(self, store: str) -> Path:
        """As this process sees it."""
        return Path(f"{self._root}{self.folder / store}")

    def file_of(self, store: str) -> Path:
        return self.folder_of(store) / FILES[store]

    def run(self, *command: str) -> str:
        return subprocess.run([*self._own, *command], check=True, capture_output=True, text=True).stdout

    def read_ids(self) -> set[str]:
        """Of the requests in the ledger. SQLite follows links itself, so this must run where the router does."""
        return set(self.run(sys.executable, "-c", READ_IDS, str(self.folder / FILES["ledger"])).split())

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["Router"]:
        command = [*self._own, sys.executable, "-m", "router.cli", "serve", "--config", str(self.folder / "config.yaml")]
        log = self.folder / "log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(*command, "--port", "0", "--log", "json", stderr=file)
        try:
            await until(lambda: b"server.started" in log.read_bytes() or process.returncode is not None, 60)
            assert process.returncode is None, log.read_text()
            yield Router(self, process.pid, int(re.search(rb"http://127\.0\.0\.1:(\d+)", log.read_bytes())[1]))
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


class Router:
    def __init__(self, place: Place, pid: int, port: int) -> None:
        self._place, self.pid, self._port = place, pid, port

    async def ask(self, path: str, body: object = None, caller: str = "bob") -> Reply:
        return await call(self._port, path, body, headers=self._place.headers[caller])

    async def read(self, path: str) -> dict:
        return json.loads((await self.ask(path)).body)

    async def find_down(self) -> set[str]:
        figures = (await self.ask("/metrics")).body.decode()
        return set(re.findall(r'^tandem_store_up\{store="(\w+)"\} 0', figures, re.MULTILINE))


class Kept:
    """What a router accepted, which must not be lost."""

    def __init__(self) -> None:
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
    await until(lambda: is_down(router, broken), 60)
    ready = await router.ask("/readyz")
    away = json.loads(ready.body)["away"]
    assert (ready.status, len(away)) == (200, len(broken))
    assert all(re.search(cause, text) for text in away), away
    assert sorted(away) == sorted(notice["text"] for notice in (await router.read("/tandem/notices"))["notices"])
    for path in (
        *(f"/v1/responses/{name}" for name in (*kept.responses, *kept.jobs)),
        f"/tandem/decisions/{min(kept.requests)}",
    ):
        if (found := await router.ask(path)).status != 200:
            check_refused(found, json.loads(found.body)["error"]["code"], cause)


async def is_down(router: Router, broken: Collection[str]) -> bool:
    return await router.find_down() == set(broken)


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


RUNNING: dict[str, Fault] = {"gone": gone, "blocked": blocked, "locked": locked}
STARTING: dict[str, Fault] = {**RUNNING, "locked": partial(locked, mode="EXCLUSIVE"), "full": full, "read-only": read_only}


@pytest.fixture
def place(tmp_path, request) -> Iterator[Place]:
    """On file systems of its own, where the test asks for that."""
    if getattr(request, "param", None) not in ("full", "read-only"):
        (found := Place(tmp_path)).prepare()
        yield found
        return
    if CANNOT_MOUNT:
        pytest.skip("no file system can be mounted here")
    mounts = [f"mkdir {tmp_path / store} && mount -t tmpfs -o size=4m none {tmp_path / store}" for store in FILES]
    script = " && ".join([*mounts, "echo ready", "exec sleep 600"])
    with subprocess.Popen(["unshare", "-rm", "sh", "-c", script], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        own = ("nsenter", "-t", str(holder.pid), "-U", "-m", "--preserve-credentials")
        (found := Place(tmp_path, own, f"/proc/{holder.pid}/root")).prepare()
        yield found
        holder.kill()


@pytest.mark.parametrize("broken", GROUPS, ids="+".join)
@pytest.mark.parametrize(("place", "fault"), [(name, name) for name in STARTING], indirect=["place"], ids=list(STARTING))
async def test_a_router_starts_without_files_that_cannot_be_used_and_takes_each_once_it_can_be(place, fault, broken):
    kept = Kept()
    async with place.serve() as router:
        await kept.add(router)
        await until(lambda: kept.are_jobs_over(router))

    with contextlib.ExitStack() as stack:
        for store in broken:
            stack.enter_context(STARTING[fault](place, store))
        async with place.serve() as router:
            await check_away(router, kept, broken, CAUSES[fault], is_new=True)
            stack.close()

            await until(lambda: is_down(router, ()), 60)
            assert "away" not in await router.read("/readyz")
            await kept.check_whole(router, place)


@pytest.mark.parametrize("fault", RUNNING)
async def test_a_running_router_goes_on_without_files_that_cannot_be_used(place, fault):
    kept = Kept()
    async with place.serve() as router:
        await kept.add(router)
        await until(lambda: kept.are_jobs_over(router))
        for broken in GROUPS:
            with contextlib.ExitStack() as stack:
                for store in broken:
                    stack.enter_context(RUNNING[fault](place, store))
                await check_away(router, kept, broken, CAUSES[fault], is_new=False)

            await until(lambda: is_down(router, ()), 60)
            assert "away" not in await router.read("/readyz")
            await kept.check_whole(router, place)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process can be set on Linux only")
async def test_a_running_router_without_any_room_serves_and_records_everything_once_there_is_room(place):
    kept = Kept()
    async with place.serve() as router:
        await kept.add(router)
        await until(lambda: kept.are_jobs_over(router))
        _, hard = resource.prlimit(router.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(router.pid, resource.RLIMIT_FSIZE, (1, hard))
        await check_away(router, kept, FILES, CAUSES["limited"], is_new=False)

        resource.prlimit(router.pid, resource.RLIMIT_FSIZE, (hard, hard))

        await until(lambda: is_down(router, ()), 60)
        assert "away" not in await router.read("/readyz")
        await kept.check_whole(router, place)
