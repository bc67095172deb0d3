"""`tandem keys forget`: nothing of a caller is left on disk, and everything of the others is."""

import asyncio
import shutil
import sqlite3
from contextlib import closing

import pytest

from router.cli import main
from router.contract.caller import Caller, SessionKey, record_name
from router.contract.keys import make_key
from tests.conftest import SIMULATED
from tests.router.stores.two_callers import CANARY, ask, found_in, write_two
from tests.tools.http import call
from tests.tools.jobs import LEASE_SECONDS, MANY, Clock, Observing, make_ending, make_job, make_segment, open_sqlite_jobs
from tests.tools.ledgers import write_ledger


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text(SIMULATED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_that_is_kept_of_a_caller_is_deleted_to_the_last_byte_and_nothing_of_others(folder, capsys):
    path = write_two(folder / "test.db")
    assert found_in(folder) == ["test.db"]

    assert main(["keys", "forget", "ada", "--yes"]) == 0

    assert found_in(folder) == []
    assert ask(path, "SELECT DISTINCT caller FROM entries") == [("bob",)]
    assert ask(path, "SELECT count(*) FROM entries") == [(20,)]
    assert ask(path, "SELECT key FROM sessions") == [(record_name(SessionKey(Caller("bob"), "s")),)]
    assert ask(path, "SELECT request_id FROM misjudged") == [("req_bob_1",)]
    assert capsys.readouterr().out == f"deleted from {path}: 20 requests, 1 session, 1 mark\n"


async def test_background_jobs_go_with_their_logs_and_what_webhooks_were_to_be_told(folder, capsys):
    write_two(folder / "test.db")
    store = open_sqlite_jobs(folder / "jobs.db", [], Clock())
    for who in ("ada", "bob"):
        text = CANARY if who == "ada" else who
        await store.add(make_job(f"resp_{who}", Caller(who), title=text, body=text.encode()), MANY)
        job = await store.claim("here:1:1", LEASE_SECONDS, MANY)
        await store.append(job, [make_segment(0, text=text * 1_000)])
        store.observe(Observing("https://a.example"))
        await store.finish(job, make_ending())
    await store.close()

    assert await asyncio.to_thread(main, ["keys", "forget", "ada", "--yes"]) == 0

    assert found_in(folder) == []
    assert (
        ask(folder / "jobs.db", "SELECT id FROM jobs") == ask(folder / "jobs.db", "SELECT job FROM outbox") == [("resp_bob",)]
    )
    assert ask(folder / "jobs.db", "SELECT count(*) FROM segments") == [(1,)]
    assert f"deleted from {folder / 'jobs.db'}: 1 background job\n" in capsys.readouterr().out


def test_a_copy_that_is_damaged_is_deleted_and_named(folder, capsys):
    path = write_two(folder / "test.db")
    (folder / "test.db.before-5").write_bytes(f"{CANARY}, and long enough for SQLite to look at it ".encode() * 200)

    assert main(["keys", "forget", "ada", "--yes"]) == 0

    assert found_in(folder) == []
    assert "deleted " + str(folder / "test.db.before-5") + ": a damaged copy" in capsys.readouterr().out
    assert path.exists()


def test_without_a_yes_nothing_is_deleted(folder, capsys):
    write_two(folder / "test.db")

    assert main(["keys", "forget", "ada"]) == 1

    told = capsys.readouterr().err
    assert "20 requests" in told
    assert "hint: --yes" in told
    assert found_in(folder) == ["test.db"]


def test_a_caller_of_whom_nothing_is_kept_is_said(folder, capsys):
    write_two(folder / "test.db")

    assert main(["keys", "forget", "eve\x1b[31m", "--yes"]) == 1

    told = capsys.readouterr().err
    assert 'nothing is kept of "eve?[31m"' in told
    assert "stats --by caller" in told


def test_where_there_is_no_ledger_none_is_made(folder, capsys):
    assert main(["keys", "forget", "ada", "--yes"]) == 1

    assert "no ledger yet" in capsys.readouterr().err
    assert not (folder / "test.db").exists()


async def test_next_to_a_running_router_rows_and_stored_responses_go_and_the_next_request_is_recorded(start, folder, capsys):
    keys = {name: make_key() for name in ("ada", "bob")}
    callers = ", ".join(
        f'{name}: {{keys: [{{id: "{key.id}", sha256: {key.digest.hex()}, created: 2026-11-01T10:00:00Z}}]}}'
        for name, key in keys.items()
    )
    (folder / "keys.yaml").write_text(f"callers: {{{callers}}}")
    (folder / "keys.yaml").chmod(0o600)
    config = SIMULATED.replace("{path: test.db}", "{path: test.db, keep_text: true}")
    config += "keys: {file: keys.yaml}\nstore: {path: responses.db}\n"
    (folder / "config.yaml").write_text(config)
    tandem = await start(config, folder)

    async def say(name: str, words: str) -> None:
        body = {"model": "fast", "input": words, "store": True}
        reply = await call(tandem.port, "/v1/responses", body, {"authorization": f"Bearer {keys[name].text}"})
        assert reply.status == 200

    for name in ("ada", "bob"):
        await say(name, f"{CANARY} rename it" if name == "ada" else "rename it")
    await tandem.entries(2)
    await tandem.house.state.responses.is_denied("resp_none", Caller("bob"))  # after all that was queued before
    assert "test.db-wal" in found_in(folder)

    assert await asyncio.to_thread(main, ["keys", "forget", "ada", "--yes"]) == 0

    assert found_in(folder) == []
    assert ask(folder / "responses.db", "SELECT DISTINCT caller FROM transcripts") == [("bob",)]
    assert ask(folder / "responses.db", "SELECT DISTINCT caller FROM items") in ([("bob",)], [])
    await say("bob", "rename that")
    assert [row["caller"] for row in await tandem.entries(2)] == ["bob", "bob"]
    told = capsys.readouterr().err
    assert "ada still has a key" in told
    assert "keeps recent texts in memory for up to an hour" in told


def test_forgetting_local_leaves_the_sessions_of_others(folder):
    path = write_ledger(folder / "test.db", {"caller": "local"})
    with closing(sqlite3.connect(path)) as database, database:
        for who in ("local", "bob"):
            database.execute("INSERT INTO sessions VALUES (?, 1.0, x'00')", (record_name(SessionKey(Caller(who), "s")),))

    assert main(["keys", "forget", "local", "--yes"]) == 0

    assert ask(path, "SELECT key FROM sessions") == [(record_name(SessionKey(Caller("bob"), "s")),)]


def test_the_copy_of_another_file_is_left_alone(folder):
    write_two(folder / "test.db")
    shutil.copy(folder / "test.db", folder / "test.db.mine")

    assert main(["keys", "forget", "ada", "--yes"]) == 0

    assert found_in(folder) == ["test.db.mine"]


@pytest.mark.parametrize(
    ("caller", "says"), [("ada", "texts of responses stay there for up to an hour"), ("nobody", "10 minutes")]
)
def test_what_stays_in_a_shared_server_that_is_away_is_said_with_its_time(folder, capsys, monkeypatch, caller, says):
    monkeypatch.setenv("TANDEM_VALKEY_URL", "redis://127.0.0.1:1")
    (folder / "config.yaml").write_text(SIMULATED + "shared: {valkey: {url: env:TANDEM_VALKEY_URL}}\n")
    write_two(folder / "test.db")

    assert main(["keys", "forget", caller, "--yes"]) == 1

    assert says in capsys.readouterr().err
    assert caller == "nobody" or found_in(folder) == []


@pytest.mark.parametrize("has_ledger", [True, False])
def test_a_shared_server_that_is_away_is_not_said_to_keep_nothing(folder, capsys, monkeypatch, has_ledger):
    monkeypatch.setenv("TANDEM_VALKEY_URL", "redis://127.0.0.1:1")
    (folder / "config.yaml").write_text(SIMULATED + "shared: {valkey: {url: env:TANDEM_VALKEY_URL}}\n")
    if has_ledger:
        write_two(folder / "test.db")

    assert main(["keys", "forget", "nobody", "--yes"]) == 1

    told = capsys.readouterr().err
    looked = f'nothing is kept of "nobody" in {folder / "test.db"}; ' if has_ledger else ""
    assert f"\n{looked}shared.valkey could not be asked: the server cannot be reached" in told


def test_what_a_shared_server_keeps_is_deleted(folder, capsys, monkeypatch, valkey):
    monkeypatch.setenv("TANDEM_VALKEY_URL", valkey.url())
    terms = valkey.terms()
    shared = f"shared: {{valkey: {{url: env:TANDEM_VALKEY_URL, prefix: {terms.prefix}}}}}\n"
    (folder / "config.yaml").write_text(SIMULATED + shared)
    valkey.send("SET", f"{terms.prefix}:s:{record_name(SessionKey(Caller('ada'), 's'))}", "1 {}")

    assert main(["keys", "forget", "ada", "--yes"]) == 0

    told = capsys.readouterr()
    assert "shared.valkey: 1 session" in told.err
    assert told.out == "deleted from shared.valkey: 1 session\n"
