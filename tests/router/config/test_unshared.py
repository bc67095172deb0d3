"""What routers do not share, by what their config leaves out."""

import pytest

from router.config.load import check_config
from router.config.unshared import list_unshared
from router.wiring.build import known_names
from tests.conftest import SIMULATED

VALKEY = "valkey: {url: env:TANDEM_VALKEY_URL}"
POSTGRES = "postgres: {url: env:TANDEM_POSTGRES_URL}"
SECRET = "secret: env:TANDEM_SHARED_SECRET"


@pytest.mark.parametrize(
    ("shared", "named"),
    [
        ("", []),
        (f"{VALKEY}, {POSTGRES}, {SECRET}", []),
        (f"{VALKEY}, {SECRET}", ["responses with store", "the ledger", "background jobs"]),
        (
            f"{POSTGRES}, {SECRET}",
            ["sessions", "rates, budgets and quotas", "Idempotency-Key", "previous_response_id", "what targets report"],
        ),
        (f"{VALKEY}, {POSTGRES}", ["turn tokens"]),
    ],
)
def test_each_part_that_is_left_out_names_what_is_not_shared(tmp_path, monkeypatch, shared, named):
    monkeypatch.setenv("TANDEM_VALKEY_URL", "redis://h")
    monkeypatch.setenv("TANDEM_POSTGRES_URL", "postgresql://h/d")
    monkeypatch.setenv("TANDEM_SHARED_SECRET", "s" * 32)
    loaded = check_config(SIMULATED + f"shared: {{{shared}}}\n", "test", tmp_path, known_names())

    lines = list_unshared(loaded)

    assert len(lines) == len(named)
    assert all(line.startswith(name) for line, name in zip(lines, named, strict=True))


def test_without_a_ledger_there_is_nothing_to_copy(tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_VALKEY_URL", "redis://h")
    monkeypatch.setenv("TANDEM_POSTGRES_URL", "postgresql://h/d")
    monkeypatch.setenv("TANDEM_SHARED_SECRET", "s" * 32)
    text = "\n".join(line for line in SIMULATED.splitlines() if not line.startswith("ledger"))
    text += f"\nledger: {{path: null}}\nshared: {{{VALKEY}, {POSTGRES}, {SECRET}}}\n"

    (line,) = list_unshared(check_config(text, "test", tmp_path, known_names()))

    assert line.startswith("the ledger: ledger.path is null")
