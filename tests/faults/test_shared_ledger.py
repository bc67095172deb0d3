"""Routers that copy their ledgers to one Postgres database, which goes away under load; a router is killed.

`python -m tests.faults.test_shared_ledger 60` takes the database away for 60 seconds under the load of three routers, kills one
of them, and prints what it saw. A second number is callers per router; `stop` suspends the server instead of killing it.
"""

import asyncio
import contextlib
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytest.importorskip("asyncpg")

from tests.conftest import SIMULATED
from tests.faults.test_ledger_kills import Answered, read_ids
from tests.tools.fleet import Fleet, fleet_of
from tests.tools.http import call, chat
from tests.tools.postgres import PostgresServer, find_binaries
from tests.tools.waiting import by_the_clock, later, until

CONFIG = SIMULATED + "shared: {postgres: {url: env:TANDEM_POSTGRES_URL}}\n"
COPIED = "SELECT id, replica FROM tandem.entries"


class Trial:
    """A fleet under constant load."""

    def __init__(self, fleet: Fleet, callers: int) -> None:
        self.fleet, self.answered = fleet, Answered()
        self.tasks = [later(self.answered.ask_on(router.port)) for router in fleet.routers for _ in range(callers)]

    def in_files(self) -> list[str]:
        return [name for router in self.fleet.routers for name in read_ids(router.folder)]

    async def stop(self) -> None:
        """End the load, and return when its last rows are in the files."""
        self.answered.is_over = True
        await asyncio.gather(*self.tasks)
        for router in self.fleet.routers:
            last = (await call(router.port, "/v1/chat/completions", chat())).headers["x-tandem-request-id"]
            await until(lambda last=last, folder=router.folder: last in read_ids(folder), 60)

    async def await_copies(self) -> float:
        """Wait until the database has every row. Returns how long that took."""
        began = time.monotonic()
        while {name for name, _ in await self.fleet.ask(COPIED)} != set(self.in_files()):  # noqa: ASYNC110  other processes'
            await asyncio.sleep(0.05)
        return time.monotonic() - began

    async def find_faults(self) -> list[str]:
        rows, written = await self.fleet.ask(COPIED), self.in_files()
        copied = [name for name, _ in rows]
        faults = [f"{len(set(written) - set(copied))} rows are not copied"] if set(written) - set(copied) else []
        faults += [f"{len(set(copied) - set(written))} rows are in no file"] if set(copied) - set(written) else []
        faults += [f"{len(copied) - len(set(copied))} rows are there twice"] if len(copied) != len(set(copied)) else []
        if any(replica is None for _, replica in rows):
            faults.append("rows do not say which router wrote them")
        return faults


@contextlib.asynccontextmanager
async def away(server: PostgresServer, *, is_suspended: bool):
    """No database until the end of the block: suspended, or killed and restarted."""
    if is_suspended:
        server.signal_all(signal.SIGSTOP)
        yield
        server.signal_all(signal.SIGCONT)
    else:
        server.kill()
        yield
        await asyncio.to_thread(server.start)


async def lose_the_database(trial: Trial, seconds: float, *, is_suspended: bool) -> None:
    """Take the database away, then kill and restart a router while its rows wait."""
    victim, fleet = trial.fleet.routers[0], trial.fleet
    async with away(fleet.server, is_suspended=is_suspended):
        before = len(trial.in_files())
        await until(lambda: len(trial.in_files()) > before + 60, 60)
        await by_the_clock(seconds)
        await victim.kill()
    await victim.start()


async def test_no_row_is_lost_or_doubled_when_the_database_hangs_and_a_router_is_killed(postgres, tmp_path):
    async with fleet_of(1, postgres, tmp_path, CONFIG) as fleet:
        trial = Trial(fleet, callers=1)
        await lose_the_database(trial, 0.0, is_suspended=True)
        await trial.stop()
        await trial.await_copies()

        assert await trial.find_faults() == []


async def run_long(seconds: float, callers: int, *, is_suspended: bool) -> int:
    server = PostgresServer(find_binaries())
    try:
        server.start()
        with tempfile.TemporaryDirectory() as folder:
            async with fleet_of(3, server, Path(folder), CONFIG) as fleet:
                trial = Trial(fleet, callers)
                await lose_the_database(trial, seconds, is_suspended=is_suspended)
                waiting = len(trial.in_files()) - len(await fleet.ask(COPIED))
                took = await until_caught_up(trial)
                await trial.stop()
                last = await trial.await_copies()
                saw = {
                    "rows": len(trial.in_files()),
                    "waiting when the database was back": waiting,
                    "copied after seconds": round(took, 1),
                    "copied after the last request, seconds": round(last, 1),
                    "faults": await trial.find_faults(),
                }
                print(json.dumps(saw, indent=2))
                return 1 if saw["faults"] else 0
    finally:
        server.stop()


async def until_caught_up(trial: Trial) -> float:
    """Under load, wait until what was in the files a second ago is copied."""
    began = time.monotonic()
    while True:
        written = set(trial.in_files())
        await asyncio.sleep(1.0)
        if not written - {name for name, _ in await trial.fleet.ask(COPIED)}:
            return time.monotonic() - began


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "stop"]
    numbers = [float(word) for word in given] + [60.0, 4.0][len(given) :]
    sys.exit(asyncio.run(run_long(numbers[0], int(numbers[1]), is_suspended="stop" in sys.argv)))
