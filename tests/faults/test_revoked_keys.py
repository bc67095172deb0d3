"""Keys that are revoked while their jobs wait and run, at one router and at another router."""

import asyncio
import contextlib
import json
import os
import sqlite3
import sys
from pathlib import Path

import pytest
import yaml
from websockets.exceptions import ConnectionClosed

from router.contract.stores import StoreUnusable
from tests.tools.background import SPEECH, ask, poll, speak_in_steps
from tests.tools.http import call, request_bytes
from tests.tools.keyed import KEYS, Callers
from tests.tools.running import Running, one_dialect, running
from tests.tools.sockets import open_socket
from tests.tools.waiting import later, until

pytestmark = pytest.mark.wire

ONE_AT_ONCE = f"jobs: {{most_for_a_caller: 1}}\n{KEYS}"
SHARED_BY = """
shared:
  replica: {name}
  postgres: {{url: env:TANDEM_POSTGRES_URL, timeout_ms: 5000}}
  valkey: {{url: env:TANDEM_VALKEY_URL, timeout_ms: 5000}}
"""
MANY = 1_000
REVOKED = {"code": "server_error", "message": "the key was revoked", "reason": "key_revoked"}


@pytest.fixture
def steps(upstream):
    """Lets the upstream go on, a frame each."""
    steps = asyncio.Semaphore(2)
    upstream.scripts = [speak_in_steps("chat", SPEECH, steps)]
    return steps


@pytest.fixture
async def tandem(start, upstream, callers):
    return await start(one_dialect("chat", upstream.base_url, extra=ONE_AT_ONCE))


@pytest.fixture
def callers(tmp_path):
    return Callers(tmp_path, eve={"tiers": ["fast"]}, bob={})


async def begin(port: int, headers: dict[str, str], count: int = 1) -> list[str]:
    replies = [await call(port, "/v1/responses", ask(), headers) for _ in range(count)]
    assert {reply.status for reply in replies} == {200}, replies
    return [reply.json["id"] for reply in replies]


def read_jobs(folder: Path) -> dict[str, tuple[str, dict | None]]:
    with contextlib.closing(sqlite3.connect(folder / "jobs.db", timeout=30)) as database:
        rows = database.execute("SELECT id, state, response FROM jobs").fetchall()
    return {name: (state, json.loads(response or b"{}").get("error")) for name, state, response in rows}


def states_in(folder: Path) -> list[str]:
    return sorted(state for state, _ in read_jobs(folder).values())


async def look_now(tandem: Running) -> dict:
    """What `tandem keys revoke` asks for."""
    reply = await call(tandem.port, "/tandem/keys", {}, {"authorization": f"Bearer {tandem.built.own_key}"})
    assert reply.status == 200, reply
    return reply.json["ended"]


async def read_feed(port: int, headers: dict[str, str], heard: list[bytes]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes("/tandem/feed", method="GET", headers=headers))
    while (line := await reader.readline()) not in (b"", b"0\r\n"):  # the last chunk: the connection itself is kept
        heard.append(line)
    writer.close()


async def test_a_revoke_ends_jobs_that_wait_and_run_and_closes_sockets_and_feeds(tandem, callers, tmp_path, upstream, steps):
    jobs = await begin(tandem.port, callers["eve"], 4)
    (other,) = await begin(tandem.port, callers["bob"])
    await until(lambda: len(upstream.seen) == 2)
    feed = later(read_feed(tandem.port, callers["eve"], heard := []))
    await until(lambda: heard)
    async with open_socket(tandem.port, **callers["eve"]) as socket:
        await until(lambda: tandem.admission.sockets == 1)
        callers.write(bob={})
        ended = await look_now(tandem)

        with pytest.raises(ConnectionClosed) as closed:
            await socket.event()
    await feed
    key = callers.id_of("eve")
    await until(lambda: states_in(tmp_path) == ["cancelled"] * 4 + ["running"])

    assert ended == {key: {"waiting_jobs": 3, "running_jobs": 1, "sockets": 1, "feeds": 1}}
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "the key was revoked or has expired")
    assert {read_jobs(tmp_path)[job][1]["reason"] for job in jobs} == {"key_revoked"}
    assert len(upstream.seen) == 2
    for _ in range(MANY):
        steps.release()
    assert (await poll(tandem, other, callers["bob"]))["status"] == "completed"


async def test_jobs_of_a_key_that_was_replaced_are_cancelled_and_say_why(tandem, callers, tmp_path, upstream, steps):
    jobs, old = await begin(tandem.port, callers["eve"], 2), callers.id_of("eve")
    await until(lambda: len(upstream.seen) == 1)
    callers.renew("eve")
    callers.write(eve={}, bob={})

    ended = await look_now(tandem)
    responses = [await poll(tandem, job, callers["eve"]) for job in jobs]

    assert ended == {old: {"waiting_jobs": 1, "running_jobs": 1}}
    assert [(response["status"], response["error"]) for response in responses] == [("cancelled", REVOKED)] * 2


async def test_a_revoke_at_one_router_ends_all_work_at_another(
    start, tmp_path, upstream, steps, own_valkey, postgres, monkeypatch
):
    """Jobs are shared over PostgreSQL, revoked keys over Valkey; each router has a key file of its own."""
    monkeypatch.setenv("TANDEM_VALKEY_URL", own_valkey.url())
    monkeypatch.setenv("TANDEM_POSTGRES_URL", url := await postgres.create())
    routers = {}
    for name in "ba":  # the job under way is at b, which is alone when it begins
        (folder := tmp_path / name).mkdir()
        if name == "b":
            callers = Callers(folder, eve={}, bob={})
            text = (folder / "keys.yaml").read_text()
        (folder / "keys.yaml").touch(0o600)
        (folder / "keys.yaml").write_text(text)
        config = one_dialect("chat", upstream.base_url, extra=ONE_AT_ONCE + SHARED_BY.format(name=name))
        routers[name] = await start(config, folder)
        if name == "b":
            jobs = await begin(routers["b"].port, callers["eve"], 4)
            await until(lambda: len(upstream.seen) == 1)
    one, other = routers["a"], routers["b"]
    watching = later(other.built.watch_keys())
    (bobs,) = await begin(one.port, callers["bob"])
    await until(lambda: len(upstream.seen) == 2)
    feed = later(read_feed(other.port, callers["eve"], heard := []))
    await until(lambda: heard)
    async with open_socket(other.port, **callers["eve"]) as socket:
        await until(lambda: other.admission.sockets == 1)
        data = yaml.safe_load(text)
        del data["callers"]["eve"]
        (tmp_path / "a" / "keys.yaml").write_text(yaml.safe_dump(data))
        await look_now(one)

        with pytest.raises(ConnectionClosed) as closed:
            await socket.event()
    await feed
    store = one.built.jobs.store
    for job in jobs:
        watch = store.watch(job)
        while (await store.find(job, None)).state != "cancelled":
            await watch.wait(30)
        watch.close()
    rows = await postgres.ask(url, "SELECT id, state, response FROM tandem.jobs")
    watching.cancel()

    assert closed.value.rcvd.code == 1008
    assert {name: state for name, state, _ in rows} == {**dict.fromkeys(jobs, "cancelled"), bobs: "running"}
    assert {json.loads(response)["error"]["reason"] for name, _, response in rows if name in jobs} == {"key_revoked"}
    assert len(upstream.seen) == 2
    assert (await call(other.port, "/v1/responses", ask(), callers["eve"])).status == 401


async def test_jobs_that_cannot_be_reached_during_a_revoke_are_ended_once_they_can(
    tandem, callers, tmp_path, upstream, steps, monkeypatch
):
    await begin(tandem.port, callers["eve"], 3)
    await until(lambda: len(upstream.seen) == 1)
    store = tandem.built.jobs.store
    callers.write(bob={})
    with monkeypatch.context() as patched:

        async def fail(*_):
            raise StoreUnusable("jobs.db cannot be read")

        patched.setattr(store, "list_jobs", fail)
        await tandem.built.key_watch.look()

    await tandem.built.key_watch.look()
    await until(lambda: states_in(tmp_path) == ["cancelled"] * 3)

    assert len(upstream.seen) == 1


async def test_jobs_whose_key_was_revoked_while_no_router_ran_are_cancelled_by_the_next(callers, tmp_path, upstream, steps):
    config = one_dialect("chat", upstream.base_url, extra=ONE_AT_ONCE)
    async with running(config, tmp_path) as tandem:
        await begin(tandem.port, callers["eve"], 3)
        await until(lambda: len(upstream.seen) == 1)
    callers.write(bob={})

    async with running(config, tmp_path):
        await until(lambda: states_in(tmp_path) == ["cancelled"] * 3)

    assert len(upstream.seen) == 1
    assert [error for _, error in read_jobs(tmp_path).values()] == [REVOKED] * 3


async def test_a_request_whose_key_is_revoked_before_it_begins_is_refused(tandem, callers, upstream, steps):
    body = json.dumps({"model": "fast", "messages": [{"role": "user", "content": "hi"}]}).encode()
    given = request_bytes("/v1/chat/completions", body, callers["eve"])
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(given[:-1])
    await until(lambda: tandem.admission.in_flight == 1)
    callers.write(bob={})
    await tandem.built.key_watch.look()
    writer.write(given[-1:])

    assert (await reader.readline()).split()[1] == b"401"
    assert upstream.seen == []
    writer.close()


async def revoke(folder: Path, name: str) -> str:
    """What `tandem keys revoke` says."""
    command = [sys.executable, "-m", "router.cli", "keys", "revoke", name, "--config", str(folder / "config.yaml")]
    variables = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, env=variables)
    return (await process.communicate())[1].decode()


async def test_the_command_says_how_many_jobs_are_on_disk_where_no_router_runs(callers, tmp_path, upstream, steps):
    (tmp_path / "config.yaml").write_text(config := one_dialect("chat", upstream.base_url, extra=ONE_AT_ONCE))
    async with running(config, tmp_path) as tandem:
        await begin(tandem.port, callers["eve"], 3)
        await until(lambda: len(upstream.seen) == 1)

    assert "3 jobs of it will be cancelled when a router starts" in await revoke(tmp_path, "eve")
