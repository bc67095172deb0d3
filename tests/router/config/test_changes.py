"""What differs between two configs, in words."""

from hashlib import sha256
from pathlib import Path

import pytest

from router.config.changes import find_changes, find_key_changes, find_refreshed
from router.config.load import LoadedConfig, check_config
from router.contract.caller import Caller
from router.contract.keys import Key, KeyRing
from router.contract.rights import Rights
from router.contract.words import Tier
from router.wiring.build import known_names
from tests.conftest import SIMULATED

SECRET = "sk-canary-0123456789abcdefghij"


def load(text: str, folder: Path) -> LoadedConfig:
    return check_config(text, "test", folder, known_names())


def applied(before: str, after: str, folder: Path) -> tuple[str, ...]:
    first, second = load(before, folder), load(after, folder)
    return find_changes(first, first, second).applied


def ring(*keys: str, **rights: Rights) -> KeyRing:
    known = (Key(name, Caller("ada"), sha256(name.encode()).digest()) for name in keys)
    return KeyRing(known, rights)


def test_the_same_config_has_no_changes(tmp_path):
    loaded = load(SIMULATED, tmp_path)

    changes = find_changes(loaded, loaded, load(SIMULATED, tmp_path))

    assert (changes.applied, changes.needs_restart) == ((), ())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: simulated-deep", "name: other", ("target other: added to deep", "target simulated-deep: removed")),
        ("window_tokens: 400000", "window_tokens: 200000", ("target simulated-deep: changed window_tokens",)),
        ("ledger: {path: test.db}", "ledger: {path: test.db, keep_text: true}", ("ledger.keep_text: false → true",)),
        ("ledger:", "limits: {max_in_flight: 7}\nledger:", ("limits.max_in_flight: 1024 → 7",)),
        ("ledger:", "preference: speed\nledger:", ("preference: balanced → speed",)),
        ("quick: simulated-fast", "quick: simulated-deep", ("models: changed",)),
    ],
)
def test_what_a_reload_applies_is_said(tmp_path, old, new, said):
    assert applied(SIMULATED, SIMULATED.replace(old, new), tmp_path) == said


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("server: {port: 4001}", "server.port: 4000 → 4001"),
        ("server: {host: '::1'}", "server.host: 127.0.0.1 → ::1"),
        ("store: {path: responses.db}", "store.path: "),
        ("limits: {drain_seconds: 7}", "limits.drain_seconds: 30.0 → 7.0"),
    ],
)
def test_what_is_read_once_at_the_start_needs_a_restart(tmp_path, block, said):
    first = load(SIMULATED, tmp_path)
    changes = find_changes(first, first, load(f"{block}\n{SIMULATED}", tmp_path))

    assert changes.applied == ()
    (waits,) = changes.needs_restart
    assert waits.startswith(said)


def test_another_ledger_needs_a_restart_until_there_is_one(tmp_path):
    started, moved = load(SIMULATED, tmp_path), load(SIMULATED.replace("test.db", "other.db"), tmp_path)

    assert find_changes(started, moved, moved).needs_restart != ()
    assert find_changes(moved, moved, moved).needs_restart == ()


def test_a_new_value_of_a_key_is_said_and_never_shown(tmp_path):
    target = "- {name: a, base_url: 'http://127.0.0.1:1/v1', api_key: 'env:SOME_UNSET_KEY', model: m}"
    text = f"tiers:\n  fast: {{targets: [{target[2:]}]}}\n  deep: {{targets: [{target[2:].replace('name: a', 'name: b')}]}}\n"
    (tmp_path / ".env").write_text("SOME_UNSET_KEY=old-value\n")
    before = load(text, tmp_path)
    (tmp_path / ".env").write_text(f"SOME_UNSET_KEY={SECRET}\n")

    changes = find_changes(before, before, load(text, tmp_path))

    assert changes.applied == ("SOME_UNSET_KEY: new value, used by a, b",)
    assert SECRET not in str(changes)


def test_a_key_of_many_targets_is_one_line(tmp_path):
    named = [f"{{name: t{n}, base_url: 'http://h{n}.example/v1', api_key: 'env:SOME_UNSET_KEY', model: m}}" for n in range(200)]
    text = f"tiers:\n  fast: {{targets: [{', '.join(named[:100])}]}}\n  deep: {{targets: [{', '.join(named[100:])}]}}\n"
    (tmp_path / ".env").write_text("SOME_UNSET_KEY=old-value\n")
    before = load(text, tmp_path)
    (tmp_path / ".env").write_text(f"SOME_UNSET_KEY={SECRET}\n")

    assert find_refreshed(before, before.refresh()) == ("SOME_UNSET_KEY: new value, used by t0, t1, t2 and 197 more",)


def test_new_values_of_other_secrets_are_said(tmp_path):
    names = ("ALERT_URL", "METRICS_KEY", "TRACE_KEY", "HOOK_SECRET")
    text = (
        "alerts: {webhook: 'env:ALERT_URL'}\nmetrics: {on: true, key: 'env:METRICS_KEY'}\n"
        "traces: {endpoint: 'http://127.0.0.1:1', headers: 'env:TRACE_KEY'}\n"
        f"webhooks: [{{url: 'https://h.example/', secret: 'env:HOOK_SECRET'}}]\n{SIMULATED}"
    )

    def write(more: str) -> None:
        values = dict.fromkeys(names, f"https://h.example/{'x' * 32}{more}") | {"TRACE_KEY": f"x-key={more}"}
        (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    write("old")
    before = load(text, tmp_path)
    write(SECRET)

    said = find_refreshed(before, before.refresh())

    assert said == (
        "ALERT_URL: new value, used by alerts.webhook",
        "HOOK_SECRET: new value, used by webhooks",
        "METRICS_KEY: new value, used by metrics.key",
        "traces.headers: new value",
    )


def test_a_refresh_takes_nothing_else_of_the_config(tmp_path):
    before = load(SIMULATED, tmp_path)

    assert before.refresh() == before


def test_weights_that_were_written_again_are_a_change(tmp_path):
    loaded = load(SIMULATED, tmp_path)

    changes = find_changes(loaded, loaded, loaded, weights_before="0123")

    assert changes.applied == (f"weights: 0123 → {loaded.weights_fingerprint}",)


def test_callers_rights_and_keys_are_compared_by_name_and_number():
    before = ring("00000001", "00000002", ada=Rights(), bob=Rights())
    after = ring("00000002", "00000003", "00000004", ada=Rights(tiers=frozenset({Tier.FAST}), daily_usd=2.0), eve=Rights())

    assert find_key_changes(before, after) == (
        "caller eve: added",
        "caller bob: removed",
        "caller ada: changed tiers, daily_usd",
        "keys: 2 added",
        "keys: 1 removed",
    )
    assert find_key_changes(before, before) == ()
