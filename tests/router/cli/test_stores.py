"""`tandem stores`."""

import asyncio
import json

import pytest

pytest.importorskip("asyncpg")
pytest.importorskip("hiredis")

from router.cli import main
from tests.conftest import SIMULATED
from tests.tools.kept import make_entry, open_entries

SHARED = "shared: {valkey: {url: env:TANDEM_VALKEY_URL}, postgres: {url: env:TANDEM_POSTGRES_URL}, replica: web-1}\n"


@pytest.fixture
def shared(here, valkey, postgres, monkeypatch):
    """A config with both stores, and an empty database."""
    (here / "config.yaml").write_text(SIMULATED + SHARED)
    monkeypatch.setenv("TANDEM_VALKEY_URL", valkey.url())
    monkeypatch.setenv("TANDEM_POSTGRES_URL", asyncio.run(postgres.create()))
    return here


def test_stores_are_shown_before_and_after_a_migration(shared, capsys):
    assert main(["stores"]) == 1
    before = capsys.readouterr().out
    assert main(["stores", "migrate"]) == 0
    assert main(["stores", "migrate"]) == 0
    done = capsys.readouterr().out
    assert main(["stores"]) == 0
    after = capsys.readouterr().out

    assert "migrations applied: none, the database has no tables yet" in before
    assert "stores migrate" in before
    assert done.splitlines()[0].startswith("shared.postgres: applied 0001")
    assert done.splitlines()[1] == "shared.postgres: nothing to do, the tables are up to date"
    assert "routers connected: 0" in after
    assert "ledger of all routers: 0 rows" in after
    assert "not shared  turn tokens" in after


def test_json_says_how_much_of_this_machines_ledger_is_to_be_copied(shared, capsys):
    async def fill() -> None:
        store = open_entries(shared / "test.db", [])
        store.append(make_entry())
        await store.close()

    asyncio.run(fill())
    main(["stores", "migrate"])
    capsys.readouterr()

    assert main(["stores", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["replica"] == "web-1"
    assert (told["ledger"]["waiting_rows"], told["ledger"]["lost_rows"]) == (1, 0)
    assert told["ledger"]["lag_seconds"] >= 0
    assert told["postgres"]["migrations_missing"] == []
    assert told["valkey"]["routers"] == 0


def test_a_store_that_cannot_be_used_is_said_and_shows_no_password(shared, capsys, monkeypatch):
    monkeypatch.setenv("TANDEM_VALKEY_URL", "redis://:s3cret@127.0.0.1:1")
    monkeypatch.setenv("TANDEM_POSTGRES_URL", "postgresql://ann:s3cret@127.0.0.1:1/d")

    assert main(["stores"]) == 1
    assert main(["stores", "migrate"]) == 1

    told = "".join(capsys.readouterr())
    assert "valkey      the server cannot be reached" in told
    assert "postgres    the database cannot be reached" in told
    assert "shared.postgres: the database cannot be reached" in told
    assert "s3cret" not in told


def test_a_server_that_is_full_is_a_problem_and_the_output_is_still_json(shared, own_valkey, capsys, monkeypatch):
    monkeypatch.setenv("TANDEM_VALKEY_URL", own_valkey.url())
    own_valkey.send("CONFIG", "SET", "maxmemory", "1")

    assert main(["stores", "--json"]) == 1

    assert json.loads(capsys.readouterr().out)["valkey"] == {"problem": "the server answered OOM: its memory is full"}


def test_a_router_that_shares_nothing_is_told_which_settings_there_are(here, capsys):
    (here / "config.yaml").write_text(SIMULATED)

    assert main(["stores"]) == 2
    said = capsys.readouterr().err
    assert "names no store that routers share (workers share one that tandem serve starts for them)" in said
    assert "set shared.valkey or shared.postgres" in said


def test_only_a_database_can_be_migrated(shared, capsys):
    (shared / "config.yaml").write_text(SIMULATED + "shared: {valkey: {url: env:TANDEM_VALKEY_URL}}\n")

    assert main(["stores", "migrate"]) == 2
    assert "shared.postgres is not set" in capsys.readouterr().err


def test_check_says_line_by_line_what_is_not_shared(shared, capsys):
    (shared / "config.yaml").write_text(SIMULATED + "shared: {valkey: {url: env:TANDEM_VALKEY_URL}, replica: web-1}\n")

    assert main(["check"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert "  shared: valkey at env:TANDEM_VALKEY_URL; this router is web-1" in lines
    named = [line.split(":")[1].strip() for line in lines if line.startswith("    not shared: ")]
    assert named == ["responses with store", "the ledger", "background jobs", "turn tokens"]
