"""Several router processes that share a Postgres database, a Valkey server, or both."""

import asyncio
import contextlib
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from tests.conftest import SIMULATED
from tests.faults.test_ledger_kills import serving
from tests.tools.http import Reply, call, request_bytes
from tests.tools.ports import keepable_port
from tests.tools.postgres import PostgresServer

SHARED = SIMULATED.replace("tokens_per_second: 20000, prefill", "tokens_per_second: 40, prefill").replace(
    "- name: simulated-deep", "- name: simulated-deep\n        price: {input: 1, output: 2}"
) + ("jobs: {most_running: 8, most_for_a_caller: 100, most_queued: 1000}\nshared: {postgres: {url: env:TANDEM_POSTGRES_URL}}\n")
"""The deep target takes about a second."""
OLDER_CHECKOUT = "TANDEM_OLDER_CHECKOUT"
_GONE = (OSError, asyncio.IncompleteReadError, ValueError)


class Router:
    def __init__(self, folder: Path, variables: Mapping[str, str], config: str, checkout: Path | None = None) -> None:
        folder.mkdir()
        (folder / "config.yaml").write_text(config)
        (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        (folder / ".env").chmod(0o600)
        self.folder, self.port, self.pid = folder, keepable_port(), 0
        self._checkout = checkout
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        self._process, self.port = await self._stack.enter_async_context(serving(self.folder, self.port, self._checkout))
        self.pid = self._process.pid

    async def stop(self) -> int:
        """Returns the exit status."""
        self._process.send_signal(signal.SIGTERM)
        code = await self._process.wait()
        await self._stack.aclose()
        return code

    async def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)
        await self._stack.aclose()

    async def close(self) -> None:
        await self._stack.aclose()


class Fleet:
    def __init__(self, server: PostgresServer, url: str, routers: list[Router], seed: int = 1) -> None:
        self.server, self.url, self.routers = server, url, routers
        self.ids: list[str] = []
        self.chance = random.Random(seed)

    async def ask(self, statement: str, *values: object) -> list:
        return await self.server.ask(self.url, statement, *values)

    async def give(self, router: Router, count: int, model: str = "deep") -> list[str]:
        """Returns the ids of accepted jobs."""
        given: list[str] = []
        with contextlib.suppress(*_GONE):
            for _ in range(count):
                body = {"model": model, "input": f"question {len(self.ids)}", "background": True}
                reply = await call(router.port, "/v1/responses", body)
                assert reply.status == 200, reply.body
                given.append(json.loads(reply.body)["id"])
                self.ids.append(given[-1])
        return given

    async def find_owner(self, job_id: str) -> Router | None:
        rows = await self.ask("SELECT owner FROM tandem.jobs WHERE id = $1 AND state = 'running'", job_id)
        pids = [int(owner.split(":")[1]) for (owner,) in rows]
        return next((router for router in self.routers if router.pid in pids), None)

    async def await_owner(self, job_id: str) -> Router:
        """The router that runs a job, once it has written something."""
        said = "SELECT count(*) FROM tandem.segments s JOIN tandem.jobs j ON j.sequence = s.job WHERE j.id = $1 AND has_content"
        while (owner := await self.find_owner(job_id)) is None or await self.ask(said, job_id) == [(0,)]:  # noqa: ASYNC110  another process's
            await asyncio.sleep(0.02)
        return owner

    def other_than(self, router: Router) -> Router:
        return self.chance.choice([one for one in self.routers if one is not router])

    async def await_end(self) -> None:
        while await self.ask("SELECT count(*) FROM tandem.jobs WHERE ended_at IS NULL") != [(0,)]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def find_faults(self) -> list[str]:
        rows = await self.ask("SELECT id, state, attempt, response FROM tandem.jobs")
        faults = [f"{name} was accepted and is gone" for name in set(self.ids) - {row[0] for row in rows}]
        faults += [f"{name} was never accepted" for name in {row[0] for row in rows} - set(self.ids)]
        faults += [f"{name}: {attempt} attempts" for name, _, attempt, _ in rows if attempt > 3]
        query = (
            "SELECT s.first, s.last, s.attempt FROM tandem.segments s JOIN tandem.jobs j ON j.sequence = s.job WHERE j.id = $1"
        )
        for name, state, _, response in rows:
            error = json.loads(response or b"{}").get("error") or {}
            if state not in ("completed", "cancelled") and (state, error.get("reason")) != ("failed", "interrupted"):
                faults.append(f"{name}: {state}, {error}")
            segments = await self.ask(f"{query} ORDER BY s.first", name)
            numbers = [number for first, last, _ in segments for number in range(first, last + 1)]
            if numbers != list(range(len(numbers))):
                faults.append(f"{name}: frames are missing or twice in the log: {segments}")
            if len({attempt for *_, attempt in segments}) > 1:
                faults.append(f"{name}: the log mixes attempts: {segments}")
        return faults


@contextlib.asynccontextmanager
async def routers_of(count: int, folder: Path, config: str, variables: Mapping[str, str]) -> AsyncIterator[list[Router]]:
    """Running routers with one config and `.env`.

    Every second one is of an older release, if `tests.faults.two_releases` names a checkout of it.
    """
    older = Path(os.environ[OLDER_CHECKOUT]) if OLDER_CHECKOUT in os.environ else None
    routers = [Router(folder / f"router-{number}", variables, config, older if number % 2 else None) for number in range(count)]
    try:
        await asyncio.gather(*(router.start() for router in routers))
        yield routers
    finally:
        for router in routers:
            await router.close()


@contextlib.asynccontextmanager
async def fleet_of(
    count: int, server: PostgresServer, folder: Path, config: str = SHARED, seed: int = 1
) -> AsyncIterator[Fleet]:
    """Routers with a job database of their own."""
    url = await server.create()
    async with routers_of(count, folder, config, {"TANDEM_POSTGRES_URL": url}) as routers:
        yield Fleet(server, url, routers, seed)


async def read_piece(router: Router, job_id: str, after: int, size: int) -> bytes:
    """Some bytes of a job's stream, without its head; then the caller hangs up."""
    start = f"&starting_after={after}" if after >= 0 else ""
    reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
    try:
        writer.write(request_bytes(f"/v1/responses/{job_id}?stream=true{start}"))
        await reader.readuntil(b"\r\n\r\n")
        body = b""
        while len(body) < size and (line := await reader.readline()) not in (b"0\r\n", b""):
            body += (await reader.readexactly(int(line, 16) + 2))[:-2]
        return body[:size]
    finally:
        writer.close()


async def read_rest(router: Router, job_id: str, after: int) -> bytes:
    start = f"&starting_after={after}" if after >= 0 else ""
    return (await call(router.port, f"/v1/responses/{job_id}?stream=true{start}", method="GET")).body


async def cancel(router: Router, job_id: str) -> Reply:
    return await call(router.port, f"/v1/responses/{job_id}/cancel", {})
