"""Why `tandem serve` does not start: `tandem check` says the same."""

import sqlite3
import sys
from pathlib import Path

import pytest

from router import stores
from router.cli import main
from router.stores.sqlite.lock import FileLock
from tests.conftest import SIMULATED
from tests.router.cli.model_server import ModelServer
from tests.tools.certificates import CERT, OTHER_KEY, TLS, write_pair
from tests.tools.running import two_targets


def write_ledger(*statements: str):
    def write(here: Path) -> None:
        database = sqlite3.connect(here / "test.db")
        for statement in statements:
            database.executescript(statement)
        database.commit()
        database.close()

    return write


def lock_ledger(here: Path) -> None:
    FileLock(here / "test.db", "http://127.0.0.1:9")


def add_budget(here: Path) -> None:
    key = f'{{id: aaaaaaaa, sha256: "{"0" * 64}", created: 2026-01-01}}'
    (here / "keys.yaml").touch(0o600)
    (here / "keys.yaml").write_text(f"callers: {{ada: {{daily_usd: 1, keys: [{key}]}}}}\n")


PRICED = two_targets(
    *["http://127.0.0.1:1/v1"] * 2, fast_extra="price: {input: 1, output: 1},", deep_extra="price: {input: 1, output: 1},"
)
BROKEN = {
    "a fault": (SIMULATED + "nonsense: 1\n", None),
    "a variable that is not set": (two_targets("http://h/v1", "http://h/v1", fast_extra="api_key: env:NOWHERE,"), None),
    "an address that is broken": (two_targets("http://[::1/v1", "http://h/v1"), None),
    "a host that anybody reaches": (SIMULATED + "server: {host: 0.0.0.0}\n", None),
    "a host that is not here": (SIMULATED + "keys:\nserver: {host: 192.0.2.1, port: 0}\n", add_budget),
    "a certificate of another key": (SIMULATED + TLS, lambda here: write_pair(here, CERT, OTHER_KEY)),
    "a file of keys that does not exist": (SIMULATED + "keys:\n", None),
    "a package for valkey": (SIMULATED + "shared: {valkey: {url: env:TANDEM_VALKEY_URL}}\n", None),
    "a package for postgres": (SIMULATED + "shared: {postgres: {url: env:TANDEM_POSTGRES_URL}}\n", None),
    "a ledger that is no database": (SIMULATED, lambda here: (here / "test.db").write_text("no database at all " * 100)),
    "a ledger of another program": (SIMULATED, write_ledger("CREATE TABLE bicycles (wheels)")),
    "a ledger of a newer Tandem": (SIMULATED, write_ledger("PRAGMA user_version = 999")),
    "a ledger from before the first release": (SIMULATED, write_ledger("CREATE TABLE entries (id); PRAGMA user_version = 9")),
    "a ledger in use": (SIMULATED, lock_ledger),
    "a store of another program": (
        SIMULATED + "store: {path: test.db}\nledger: {path: null}\n",
        write_ledger("CREATE TABLE bicycles (wheels)"),
    ),
    "background work of another program": (
        SIMULATED.replace("test.db", "other.db"),
        lambda here: (write_ledger("CREATE TABLE bicycles (wheels)")(here), (here / "test.db").rename(here / "jobs.db")),
    ),
    "a budget without a place for its ledger": (
        PRICED + "keys:\nledger: {path: /proc/nowhere/test.db}\nserver: {port: 0}\n",
        add_budget,
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_serve_refuses_check_refuses_with_the_same_words_and_code(here, capsys, monkeypatch, case):
    config, prepare = BROKEN[case]
    for name in ("postgres", "valkey"):  # the import below sets others, which later tests must not get
        monkeypatch.setattr(stores, name, None, raising=False)
    for name in [name for name in sys.modules if name.startswith(("router.stores.valkey", "router.stores.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("hiredis", "asyncpg"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delenv("NOWHERE", raising=False)
    monkeypatch.setenv("TANDEM_VALKEY_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("TANDEM_POSTGRES_URL", "postgresql://x@127.0.0.1:1/d")
    (here / "config.yaml").write_text(config if "server:" in config else f"{config}server: {{port: 0}}\n")
    if prepare is not None:
        prepare(here)

    assert main(["check"]) == 2
    checked = " ".join(capsys.readouterr().out.split())
    assert main(["serve", "--log", "text"]) == 2
    served = [line for line in capsys.readouterr().err.splitlines() if not line.endswith((": 1 problem", ": 2 problems"))]

    assert served
    for line in served:
        assert " ".join(line.split()) in checked


def test_a_port_that_is_taken_is_refused_in_the_words_of_serve(here, capsys):
    with ModelServer() as server:
        port = server.base_url.removesuffix("/v1").rpartition(":")[2]
        (here / "config.yaml").write_text(f"{SIMULATED}server: {{port: {port}}}\n")

        assert main(["check"]) == 2
        checked = capsys.readouterr().out
        assert main(["serve"]) == 2

    for line in capsys.readouterr().err.splitlines():
        assert line.strip() in checked
