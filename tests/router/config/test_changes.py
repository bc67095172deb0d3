"""What differs between two configs."""

from hashlib import sha256
from pathlib import Path

import pytest

from router.config.changes import find_applied, find_changes, find_key_changes
from router.config.load import LoadedConfig, check_config
from router.contract.caller import Caller
from router.contract.keys import Key, KeyRing
from router.contract.rights import Rights
from router.wiring.build import known_names
from tests.conftest import SIMULATED

SECRET = "sk-canary-0123456789abcdefghij"


def load(text: str, folder: Path) -> LoadedConfig:
    return check_config(text, "test", folder, known_names())


def ring(*keys: str, **rights: Rights) -> KeyRing:
    return KeyRing((Key(name, Caller("ada"), sha256(name.encode()).digest()) for name in keys), rights)


@pytest.mark.parametrize(
    ("old", "new", "applied", "needs_restart"),
    [
        ("ledger:", "ledger:", (), ()),
        ("name: simulated-deep", "name: other", ("tiers.deep (simulated-deep, other)",), ()),
        ("window_tokens: 400000", "window_tokens: 200000", ("tiers.deep (simulated-deep)",), ()),
        ("ledger: {path: test.db}", "ledger: {path: test.db, keep_text: true}", ("ledger",), ()),
        ("ledger:", "preference: speed\nledger:", ("preference",), ()),
        ("quick: simulated-fast", "quick: simulated-deep", ("models",), ()),
        ("ledger:", "limits: {max_in_flight: 7, drain_seconds: 7}\nledger:", ("limits",), ("limits.drain_seconds",)),
        ("ledger:", "server: {port: 4001, host: '::1'}\nledger:", (), ("server.host", "server.port")),
        ("ledger:", "store: {path: responses.db}\nledger:", (), ("store.path",)),
        ("ledger:", "shared: {replica: one}\nledger:", (), ("shared",)),
    ],
)
def test_blocks_that_changed_are_named_and_settings_that_need_a_restart(tmp_path, old, new, applied, needs_restart):
    first = load(SIMULATED, tmp_path)

    changes = find_changes(first, first, load(SIMULATED.replace(old, new), tmp_path))

    assert (changes.applied, changes.needs_restart) == (applied, needs_restart)


def test_a_setting_needs_a_restart_until_there_is_one(tmp_path):
    started, moved = load(SIMULATED, tmp_path), load(SIMULATED.replace("test.db", "other.db"), tmp_path)

    assert find_changes(started, moved, moved).needs_restart == ("ledger.path",)
    assert find_changes(moved, moved, moved).needs_restart == ()


def test_new_values_of_secrets_are_a_change_of_the_blocks_that_name_them(tmp_path):
    names = ("ALERT_URL", "METRICS_KEY", "TRACE_KEY", "HOOK_SECRET", "TARGET_KEY")
    targets = [f"{{name: t{n}, base_url: 'http://h{n}.example/v1', api_key: 'env:TARGET_KEY', model: m}}" for n in range(6)]
    text = (
        "alerts: {webhook: 'env:ALERT_URL'}\nmetrics: {on: true, key: 'env:METRICS_KEY'}\n"
        "traces: {endpoint: 'http://127.0.0.1:1', headers: 'env:TRACE_KEY'}\n"
        "webhooks: [{url: 'https://h.example/', secret: 'env:HOOK_SECRET'}]\n"
        f"tiers: {{fast: {{targets: [{', '.join(targets[:5])}]}}, deep: {{targets: [{targets[5]}]}}}}\n"
    )

    def write(more: str) -> None:
        values = dict.fromkeys(names, f"https://h.example/{'x' * 32}{more}") | {"TRACE_KEY": f"x-key={more}"}
        (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    write("old")
    before = load(text, tmp_path)
    assert find_applied(before, before.refresh()) == ()
    write(SECRET)

    named = find_applied(before, before.refresh())

    targets = ("tiers.fast (t0, t1, t2 and 2 more)", "tiers.deep (t5)")
    assert named == (*targets, "metrics", "traces", "alerts", "webhooks")


def test_a_refresh_takes_nothing_else_of_the_config(tmp_path):
    before = load(SIMULATED, tmp_path)

    assert before.refresh() == before


def test_weights_that_were_written_again_are_a_change(tmp_path):
    loaded = load(SIMULATED, tmp_path)

    assert find_changes(loaded, loaded, loaded, weights_before="0123").applied == ("policies",)


def test_callers_whose_rights_or_keys_changed_are_named():
    before = ring("00000001", "00000002", ada=Rights(), bob=Rights(), cy=Rights())
    after = ring("00000002", "00000003", ada=Rights(), cy=Rights(), eve=Rights(daily_usd=2))

    assert find_key_changes(before, after) == ("callers (ada, bob, eve)",)
    assert find_key_changes(before, before) == find_key_changes(None, after) == ()
