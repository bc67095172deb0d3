"""`tandem check`: what it prints of a config, and what it refuses."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from router.cli import main
from tests.conftest import SIMULATED

SIMULATED_TIERS = """
tiers:
  fast: {targets: [{name: quick-one, adapter: simulated}]}
  deep: {targets: [{name: slow-one, adapter: simulated}]}
"""


def test_a_config_is_described_with_its_keys_by_name(check, monkeypatch):
    monkeypatch.setenv("SECRET_KEY_1", "sk-very-secret")
    target = "{name: a, base_url: 'http://h/v1', api_key: 'env:SECRET_KEY_1', model: /home/me/models/smol.gguf}"

    code, said = check(
        f"tiers: {{fast: {{targets: [{target}]}}, deep: {{targets: [{target.replace('name: a', 'name: b')}]}}}}\n"
    )

    assert code == 0
    assert "ok target fast a: smol at http://h/v1, key env:SECRET_KEY_1; chat" in said
    assert "ok key env:SECRET_KEY_1, from the environment" in said
    assert "sk-very-secret" not in said
    assert said.endswith("config.yaml: nothing to fix")


def test_something_to_fix_that_a_router_starts_with_is_status_1_without_asking_anybody(check, here):
    (here / "tandem.db").mkdir()

    code, said = check(f"ledger: {{path: tandem.db}}\n{SIMULATED_TIERS}")

    assert code == 1
    assert "tandem.db cannot be used" in said
    assert "1 thing to fix" in said


def test_model_names_are_in_the_order_in_which_they_count(check):
    own = 'models: {mine: deep, "g*": quick-one, "gpt-*": null, claude-fast: deep}\n'

    _, said = check(SIMULATED_TIERS + own)

    assert "models first match wins: auto, fast, deep, " in said
    for name in ("claude-fast → deep, ", " mine → deep, ", " quick-one, ", " g* → quick-one, *haiku* → fast, "):
        assert name in said
    assert "gpt-*" not in said


def test_callers_and_keys_are_counted_and_those_that_expire_are_named(check, here):
    def key(key_id, expires):
        until = f", expires: {datetime.now(UTC) + timedelta(days=expires):%Y-%m-%dT%H:%M:%SZ}" if expires is not None else ""
        return f'      - {{id: "{key_id * 8}", sha256: "{"0" * 64}", created: 2026-01-01{until}}}\n'

    ada = key("a", 3) + key("b", 60)
    bob = key("c", 13) + key("d", -1)
    (here / "keys.yaml").touch(0o600)
    (here / "keys.yaml").write_text(
        f"callers:\n  ada:\n    keys:\n{ada}  bob:\n    keys:\n{bob}  eve:\n    keys:\n{key('e', None)}"
    )

    code, said = check(SIMULATED_TIERS + "keys:\nserver: {host: 0.0.0.0, port: 0}\n", port=False)

    assert code == 0
    assert "ok callers 3 callers, 5 keys" in said
    assert "note callers aaaaaaaa of ada expires 20" in said
    assert "; ada has a newer key" in said
    assert "warn callers cccccccc of bob expires 20" in said
    assert "hint: tandem keys rotate bob" in said
    assert "note callers dddddddd of bob expired 20" in said
    assert "hint: tandem keys revoke dddddddd" in said.replace("remove it with ", "")
    assert "eeeeeeee" not in said


def test_what_is_not_shared_is_said_line_by_line(check, monkeypatch):
    monkeypatch.setenv("TANDEM_VALKEY_URL", "redis://127.0.0.1:1")

    _, said = check(SIMULATED + "shared: {valkey: {url: env:TANDEM_VALKEY_URL}, replica: web-1}\n")

    assert "ok shared valkey at env:TANDEM_VALKEY_URL; this router is web-1" in said
    named = [part.split(":")[0].strip() for part in said.split("note shared not shared: ")[1:]]
    assert named == ["responses with store", "the ledger", "background jobs", "turn tokens"]


def test_a_program_gets_the_same_as_json(check, here, capsys):
    check(SIMULATED_TIERS)

    assert main(["check", "--json", "--verbose"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert {"config", "python", "tokenizer", "port", "ledger", "target", "models"} <= {entry["about"] for entry in told}
    assert all(set(entry) == {"about", "state", "text", "hint"} for entry in told)


def test_a_newcomer_hears_nothing_of_builds_and_vocabularies(home, capsys):
    assert main(["check", "--live"]) == 0

    out = capsys.readouterr().out
    assert {line.split()[0] for line in out.splitlines() if not line.startswith(" ")} <= {"ok", "note"}
    assert not any(word in out for word in ("python", "vocabulary", "tokenizer", "optimiz"))


def test_every_fault_is_told_in_one_round_that_of_the_address_too(check, monkeypatch):
    monkeypatch.delenv("NOWHERE_KEY", raising=False)

    code, said = check(
        """
server: {host: 0.0.0.0}
what: 1
tiers:
  fast: {targets: [{name: a, base_url: http://h/v1, dialect: klingon, api_key: env:NOWHERE_KEY}, {name: a, adapter: telepathy}]}
  deep: {targets: []}
""",
        port=False,
    )

    assert code == 2
    for fault in ("dialect: must be", "NOWHERE_KEY is not set", 'duplicate name "a"', 'unknown adapter "telepathy"'):
        assert fault in said
    assert "fix config tiers.deep.targets: needs a target hint: tandem init" in said
    assert "server.host: 0.0.0.0 is not a loopback address" in said
    assert "config.yaml: 7 things to fix" in said


def test_the_host_of_a_faulty_config_that_asks_for_keys_is_not_blamed(check):
    code, said = check(SIMULATED_TIERS + "keys:\nserver: {host: 0.0.0.0}\nwhat: 1\n", port=False)

    assert code == 2
    assert "what: no such setting" in said
    assert "server.host" not in said


@pytest.mark.parametrize("server", ["3", "{host: 3}", "{host: '::1'}"])
def test_a_host_that_cannot_be_judged_adds_no_fault(check, server):
    code, said = check(f"{SIMULATED_TIERS}what: 1\nserver: {server}\n", port=False)

    assert code == 2
    assert "loopback" not in said


def test_a_home_that_nobody_has_is_a_path_like_any_other(check):
    tls = "tls: {ca_file: ~nobody-at-all/ca.pem}, base_url: 'https://h/v1'"
    text = SIMULATED_TIERS.replace("{name: quick-one, adapter: simulated}", f"{{name: a, {tls}}}")

    code, said = check(f"{text}ledger: {{path: ~nobody-at-all/t.db}}\n")

    assert code == 2
    assert "tls.ca_file: no such file" in said


def test_a_fresh_home_without_a_config_has_nothing_to_warn_of(home, capsys):
    (home / "config.yaml").unlink()

    main(["check", "--json"])

    config = [finding["state"] for finding in json.loads(capsys.readouterr().out) if finding["about"] == "config"]
    assert config == ["ok", "note"]
