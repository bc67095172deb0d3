"""The parent and its workers as processes, as a user starts them."""

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from router.cli.workers.parent import MAX_DEATHS
from tests.conftest import SIMULATED
from tests.router.cli.workers.group import WorkerGroup, group_of, is_alive
from tests.tools.http import call, chat, read_reply, request_bytes
from tests.tools.keyed import KEYS, write_keys
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.valkey import find_server
from tests.tools.waiting import later, until

CHAT = "/v1/chat/completions"
SLOW = SIMULATED.replace("tokens_per_second: 20000, prefill", "tokens_per_second: 100, prefill") + "metrics: {on: true}\n"
"""Its deep target takes about half a second for an answer."""
PRICED = SLOW.replace("adapter: simulated\n", "adapter: simulated\n        price: {input: 1, output: 2}\n")
STREAMS, WAITING = 6, 20

pytestmark = pytest.mark.skipif(find_server() is None, reason="no Valkey or Redis server on this machine")


@pytest.fixture
async def begin():
    """Sends a request on a connection of its own, which stays open to the end of the test. Answers what is read from it."""
    writers: list[asyncio.StreamWriter] = []

    async def begin(group: WorkerGroup, model: str, **more: object) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", group.port)
        writers.append(writer)
        writer.write(request_bytes(CHAT, chat() | {"model": model} | more))
        await writer.drain()
        return reader

    yield begin
    for writer in writers:
        writer.close()


async def read_end(reader: asyncio.StreamReader) -> bool:
    """Whether an answer came whole."""
    try:
        reply = await read_reply(reader)
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        return False
    return reply.is_whole and reply.status == 200


def read_origins(ledger: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(ledger)) as opened:
        return opened.execute("SELECT replica, worker FROM entries").fetchall()


async def test_callers_that_wait_for_a_killed_worker_are_served_by_its_successor_and_others_notice_nothing(tmp_path, begin):
    async with group_of(2, tmp_path, SLOW) as group:
        stopped, other = group.workers
        os.kill(stopped, signal.SIGSTOP)
        readers = [await begin(group, "deep", stream=True) for _ in range(STREAMS)]
        readers += [await begin(group, "fast") for _ in range(WAITING)]
        os.kill(stopped, signal.SIGKILL)

        answered = await asyncio.gather(*map(read_end, readers))

        assert all(answered)
        assert other in group.workers
        assert stopped not in group.workers
        assert "killed by SIGKILL" in group.log


async def test_a_reload_reaches_every_worker_or_none(tmp_path):
    async with group_of(2, tmp_path, SLOW) as group:
        (tmp_path / "config.yaml").write_text(SLOW.replace("metrics: {on: true}", "metrics: {on: maybe}"))
        refused = await call(group.port, "/tandem/reload", b"", {"content-type": "application/json"}, method="POST")
        (tmp_path / "config.yaml").write_text(f"{SLOW}preference: quality\n")
        taken = await call(group.port, "/tandem/reload", b"", {"content-type": "application/json"}, method="POST")

        assert refused.status == 422
        assert refused.json["error"]["faults"][0]["path"] == "metrics.on"
        assert taken.json["changed"] == ["preference: balanced → quality"]
        assert sorted(re.findall(r'"event":"config.reloaded","worker":(\d)', group.log)) == ["1", "2"]


async def test_all_workers_and_their_successors_write_one_name_to_the_ledger(tmp_path):
    async with group_of(2, tmp_path, SIMULATED) as group:
        await call(group.port, CHAT, chat())
        await until(lambda: len(read_origins(tmp_path / "test.db")) == 1)
        for pid in group.workers:
            os.kill(pid, signal.SIGKILL)
            await group.await_successor(pid)
        await call(group.port, CHAT, chat())
        await until(lambda: len(read_origins(tmp_path / "test.db")) == 2)

        origins = read_origins(tmp_path / "test.db")
        (name,) = {replica for replica, _ in origins}
        assert not any(name.endswith(f".{worker}") for _, worker in origins)


async def test_the_successor_of_a_worker_takes_nothing_that_needs_a_restart(tmp_path):
    write_keys(tmp_path, ada="")
    async with group_of(2, tmp_path, SLOW + KEYS) as group:
        (tmp_path / "config.yaml").write_text(SLOW.replace("test.db", "other.db"))
        group.process.send_signal(signal.SIGHUP)
        await until(lambda: group.log.count("config.reloaded") == 2)
        for pid in group.workers:
            os.kill(pid, signal.SIGKILL)
            await group.await_successor(pid)

        assert (await call(group.port, CHAT, chat())).status == 401
        assert not (tmp_path / "other.db").exists()


async def test_the_successor_of_a_worker_refuses_keys_that_the_other_workers_refused(tmp_path):
    write_keys(tmp_path, ada="")
    async with group_of(2, tmp_path, PRICED + KEYS, "--no-ledger") as group:
        keys = write_keys(tmp_path, ada="", eve="daily_usd: 1")
        await until(lambda: group.log.count("keys.kept") == 2)
        for pid in group.workers:
            os.kill(pid, signal.SIGKILL)
            await group.await_successor(pid)

        assert (await call(group.port, CHAT, chat(), {"authorization": f"Bearer {keys['eve'].text}"})).status == 401


async def test_the_successor_of_a_worker_begins_with_the_keys_of_now(tmp_path):
    before = write_keys(tmp_path, ada="")
    async with group_of(2, tmp_path, SIMULATED + KEYS) as group:
        now = write_keys(tmp_path, ada="")
        for pid in group.workers:
            os.kill(pid, signal.SIGKILL)
            await group.await_successor(pid)

        sent = [{"authorization": f"Bearer {keys['ada'].text}"} for keys in (before, now)]
        assert [(await call(group.port, CHAT, chat(), headers)).status for headers in sent] == [401, 200]


async def test_the_successor_of_a_worker_sends_the_key_of_now(tmp_path, upstream, other_upstream):
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    key = "api_key: 'env:SOME_UNSET_KEY',"
    (tmp_path / ".env").write_text("SOME_UNSET_KEY=sk-old\n")
    config = two_targets(upstream.base_url, other_upstream.base_url, fast_extra=key)
    async with group_of(2, tmp_path, config) as group:
        (tmp_path / ".env").write_text("SOME_UNSET_KEY=sk-new\n")
        for pid in group.workers:
            os.kill(pid, signal.SIGKILL)
            await group.await_successor(pid)

        for _ in range(4):
            assert (await call(group.port, CHAT, chat(model="fast"))).status == 200
    assert {seen.headers["authorization"] for seen in upstream.seen} == {"Bearer sk-new"}


async def test_a_reload_that_workers_would_refuse_is_refused_by_the_parent(tmp_path):
    write_keys(tmp_path, ada="")
    async with group_of(2, tmp_path, PRICED + KEYS, "--no-ledger") as group:
        write_keys(tmp_path, eve="daily_usd: 1")
        group.process.send_signal(signal.SIGHUP)

        await until(lambda: "config.kept" in group.log)
        kept = [json.loads(line) for line in group.log.splitlines() if "config.kept" in line]
        assert "worker" not in kept[0]
        assert "need one: without a ledger" in str(kept[0]["faults"])


async def test_one_scrape_has_the_figures_of_all_workers_and_readiness_is_that_of_the_group(tmp_path, begin):
    async with group_of(2, tmp_path, SLOW) as group:
        for reader in [await begin(group, "fast") for _ in range(WAITING)]:
            await read_end(reader)
        shown = (await call(group.port, "/metrics", method="GET")).body.decode()

        counts = dict(re.findall(r'tandem_requests_total\{.*outcome="SERVED".*worker="(\d)"\} ([\d.]+)', shown))
        assert sum(map(float, counts.values())) == WAITING
        assert set(re.findall(r'tandem_resident_memory_bytes\{worker="(\d)"\}', shown)) == {"1", "2"}
        assert await group.ready() == {"status": "ready", "workers": 2, "serving": 2}


async def test_the_first_worker_to_be_back_is_ready_without_the_others(tmp_path):
    async with group_of(2, tmp_path, SIMULATED) as group:
        before = group.workers
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: len(group.workers) == 2 and not {*group.workers} & {*before})
        os.kill(late := group.workers[-1], signal.SIGSTOP)
        asked = [later(group.ready()) for _ in range(WAITING)]  # so many that the other worker gets some of them
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        os.kill(late, signal.SIGCONT)

        assert {answer["status"] for answer in await asyncio.gather(*asked)} == {"ready"}


async def test_a_stop_finishes_what_runs_and_leaves_nothing(tmp_path, begin):
    async with group_of(2, tmp_path, SLOW) as group:
        pids = [*group.workers, *group.children("-server")]
        readers = [await begin(group, "deep", stream=True) for _ in range(STREAMS)]
        for reader in readers:
            await reader.readuntil(b"\r\n\r\n")
        group.process.send_signal(signal.SIGTERM)
        answered = await asyncio.gather(*(reader.read() for reader in readers))

        assert await group.process.wait() == 0
        assert all(b"[DONE]" in answer for answer in answered)
        assert not any(map(is_alive, pids))
        assert [file.name for file in tmp_path.glob("*.lock")] == []


async def test_a_signal_to_all_processes_of_a_group_finishes_what_runs(tmp_path, begin):
    async with group_of(2, tmp_path, SLOW) as group:
        readers = [await begin(group, "deep", stream=True) for _ in range(STREAMS)]
        for reader in readers:
            await reader.readuntil(b"\r\n\r\n")
        for pid in (*group.workers, group.process.pid):
            os.kill(pid, signal.SIGTERM)
        answered = await asyncio.gather(*(reader.read() for reader in readers))

        assert await group.process.wait() == 0
        assert all(b"[DONE]" in answer for answer in answered)


HUNG = """
import os, signal, socket, sys
from pathlib import Path
from router.cli.workers.parent import Parent
from router.config.load import load_config
from router.contract.keys import make_key
from router.wiring.build import known_names

def hang(*_):
    os.kill(os.getppid(), signal.SIGTERM)
    while True:
        signal.pause()

loaded = load_config(Path(sys.argv[1]), known_names())
listeners = [socket.socket()]
sys.exit(Parent(2, listeners, loaded, lambda: loaded, hang, make_key(), lambda: None, leave_seconds=0).run())
"""


def test_workers_that_hang_are_killed_and_the_parent_ends(tmp_path):
    (path := tmp_path / "config.yaml").write_text(f"limits: {{drain_seconds: 0.01}}\n{SIMULATED}")

    done = subprocess.run([sys.executable, "-c", HUNG, path], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


SOME_HANG = """
import mmap, os, signal, socket, sys, time
from pathlib import Path
from router.cli.workers import messages, parent
from router.cli.workers.messages import Kind, Topic, read_message, write_message
from router.config.load import load_config
from router.contract.keys import make_key
from router.telemetry import events
from router.wiring.build import known_names

hung = int(sys.argv[2])
starts = mmap.mmap(-1, hung + 1)  # how often each worker was started, which all processes see
parent._ALIVE_SECONDS = messages._WAIT_SECONDS[Topic.ALIVE] = 0.1

def work(parent, *_):
    # All but the last worker hang. Those that take their places answer, and end the group once all are there.
    channel, place = parent._channel, parent.number - 1
    channel.sendall(write_message(Kind.READY))
    starts[place] += 1
    if place < hung and starts[place] == 1:
        while True:
            time.sleep(1)
    for line in channel.makefile("rb"):
        message = read_message(line)
        if message.kind is Kind.STOP:
            return 0
        if message.kind is Kind.QUESTION:
            channel.sendall(write_message(Kind.ANSWER, message.topic, message.number))
            if min(starts[:hung]) == 2:
                os.kill(os.getppid(), signal.SIGTERM)
    return 0

events.set_up_logging(as_json=True)
loaded = load_config(Path(sys.argv[1]), known_names())
group = parent.Parent(hung + 1, [socket.socket()], loaded, lambda: loaded, work, make_key(), lambda: None)
sys.exit(group.run())
"""


@pytest.mark.parametrize("hung", [1, MAX_DEATHS + 1])
def test_workers_that_answer_nothing_are_killed_and_replaced_however_many_hang_together(tmp_path, hung):
    (path := tmp_path / "config.yaml").write_text(SIMULATED)

    done = subprocess.run([sys.executable, "-c", SOME_HANG, path, str(hung)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    ended = [json.loads(line) for line in done.stderr.splitlines()]
    assert sorted(end["worker"] for end in ended) == [*range(1, hung + 1)]
    assert {end["reason"] for end in ended} == {"it did not answer for a minute, and was killed"}


async def test_workers_and_their_valkey_server_end_with_a_killed_parent(tmp_path):
    async with group_of(2, tmp_path, SLOW) as group:
        pids = [*group.workers, *group.children("-server")]
        group.process.kill()

        await until(lambda: not any(map(is_alive, pids)))
        assert len(pids) == 3


async def test_more_than_five_deaths_in_a_minute_end_everything_with_the_last_words(tmp_path):
    async with group_of(2, tmp_path, SLOW) as group:
        for deaths in range(1, 7):
            os.kill(group.workers[-1], signal.SIGKILL)
            await until(lambda deaths=deaths: group.log.count("worker.ended") == deaths)

        assert await group.process.wait() == 1
        assert group.log.splitlines()[-1] == "6 workers ended within a minute, the last one: killed by SIGKILL"


async def test_a_valkey_server_that_dies_is_started_again(tmp_path):
    async with group_of(2, tmp_path, SLOW) as group:
        os.kill(group.children("-server")[0], signal.SIGKILL)

        await until(lambda: group.log.count("store.back") == 2)
        assert [json.loads(line)["event"] for line in group.log.splitlines()].count("valkey.restarted") == 1
