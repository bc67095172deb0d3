"""A ledger that is locked, gone, damaged or without room: requests are served, and losses are counted and reported."""

import asyncio
import contextlib
import json
import os
import resource
import sqlite3
import sys
from pathlib import Path

import pytest

from router.cli import main
from tests.conftest import SIMULATED
from tests.router.stores.sqlite.test_damage import spoil, write_rows
from tests.tools.http import call, chat
from tests.tools.running import read_entries
from tests.tools.waiting import until


class Process:
    """A router process and its logged events."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.events = process, list[dict]()
        self._reading = asyncio.ensure_future(self._read())  # noqa: TID251  held here

    async def _read(self) -> None:
        async for line in self.process.stderr:
            with contextlib.suppress(ValueError):
                self.events.append(json.loads(line))

    def named(self, name: str) -> list[dict]:
        return [event for event in self.events if event["event"] == name]

    async def port(self) -> int:
        await until(lambda: self.named("server.started"), 60)
        return int(self.named("server.started")[0]["url"].rpartition(":")[2])

    async def stop(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        code = await self.process.wait()
        await self._reading
        return code


@pytest.fixture
async def router(tmp_path):
    """A router that logs to a pipe, which limits on files do not affect."""
    (tmp_path / "config.yaml").write_text(SIMULATED)
    command = (
        sys.executable,
        "-m",
        "router.cli",
        "serve",
        "--config",
        tmp_path / "config.yaml",
        "--port",
        "0",
        "--log",
        "json",
    )
    started = Process(await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE))
    yield started
    if started.process.returncode is None:
        await started.stop()


async def ask(port: int, times: int = 1) -> set[str]:
    replies = [await call(port, "/v1/chat/completions", chat()) for _ in range(times)]
    assert [reply.status for reply in replies] == [200] * times
    return {reply.headers["x-tandem-request-id"] for reply in replies}


def ids_in(path: Path) -> set[str]:
    with contextlib.suppress(sqlite3.OperationalError):  # a new file without tables
        return {row["id"] for row in read_entries(path)} if path.exists() else set()
    return set()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process can be set on Linux only")
async def test_without_room_on_the_disk_requests_are_served_and_recorded_once_there_is_room(router, tmp_path):
    path, port = tmp_path / "test.db", await router.port()
    asked = await ask(port)
    await until(lambda: ids_in(path) == asked)
    _, hard = resource.prlimit(router.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(router.process.pid, resource.RLIMIT_FSIZE, (1, hard))

    asked |= await ask(port, 5)
    await until(lambda: router.named("ledger.failed"))
    asked |= await ask(port, 5)
    resource.prlimit(router.process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    await until(lambda: ids_in(path) == asked)
    assert {event["lost"] for event in router.named("ledger.failed")} == {0}
    assert await router.stop() == 0


async def test_while_another_program_locks_the_file_requests_are_served_and_recorded_afterwards(start, tmp_path):
    tandem = await start(SIMULATED)
    path = tandem.loaded.ledger_path
    asked = await ask(tandem.port)
    await until(lambda: ids_in(path) == asked)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        asked |= await ask(tandem.port, 20)
        other.execute("ROLLBACK")

    assert len(asked) == 21
    await until(lambda: ids_in(path) == asked)


async def test_a_file_that_is_deleted_is_made_again_though_nobody_asks(router, tmp_path):
    path, port = tmp_path / "test.db", await router.port()
    await ask(port)
    await until(lambda: ids_in(path))
    path.unlink()

    await until(path.exists)
    await until(lambda: [event for event in router.named("ledger.failed") if event["reason"] == "FileNotFoundError"])
    asked = await ask(port)
    await until(lambda: ids_in(path) == asked)
    assert await router.stop() == 0


@pytest.mark.parametrize("with_copy", [True, False])
def test_a_damaged_file_is_refused_with_the_copy_and_the_command_that_uses_it(tmp_path, monkeypatch, capsys, with_copy):
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(SIMULATED)
    spoil(write_rows(tmp_path / "test.db"))
    if with_copy:
        write_rows(tmp_path / "test.db.before-5", 7)

    assert main(["serve", "--port", "0"]) == 2

    told = capsys.readouterr().err
    assert f"{tmp_path / 'test.db'} is damaged: " in told
    assert "serve --no-ledger" in told
    command = next(line for line in told.splitlines() if line.strip().startswith("mv "))
    assert os.system(command) == 0
    assert len(read_entries(tmp_path / "test.db")) == 7 if with_copy else not (tmp_path / "test.db").exists()


async def test_a_damaged_file_keeps_nobody_from_serving_without_a_ledger(tmp_path):
    (tmp_path / "config.yaml").write_text(SIMULATED)
    before = spoil(write_rows(tmp_path / "test.db")).read_bytes()
    command = (
        sys.executable,
        "-m",
        "router.cli",
        "serve",
        "--config",
        tmp_path / "config.yaml",
        "--port",
        "0",
        "--no-ledger",
    )
    router = Process(await asyncio.create_subprocess_exec(*command, "--log", "json", stderr=asyncio.subprocess.PIPE))
    try:
        await ask(await router.port())
    finally:
        assert await router.stop() == 0
    assert (tmp_path / "test.db").read_bytes() == before
