"""`tandem check`."""

from datetime import UTC, datetime, timedelta

import pytest

from router.cli import main
from tests.router.cli.model_server import ModelServer
from tests.tools.certificates import CERT, OTHER_KEY, TLS, write_pair
from tests.tools.running import two_targets

SIMULATED_TIERS = """
tiers:
  fast: {targets: [{name: quick-one, adapter: simulated}]}
  deep: {targets: [{name: slow-one, adapter: simulated}]}
"""


def test_check_prints_what_a_config_stands_for_and_never_a_key(here, capsys, monkeypatch):
    monkeypatch.setenv("SECRET_KEY_1", "sk-very-secret")
    target = "{name: a, base_url: 'http://h/v1', api_key: 'env:SECRET_KEY_1', model: m}"
    (here / "config.yaml").write_text(
        f"tiers: {{fast: {{targets: [{target}]}}, deep: {{targets: [{target.replace('name: a', 'name: b')}]}}}}"
    )

    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert "env:SECRET_KEY_1" in out
    assert "sk-very-secret" not in out


def test_check_prints_every_fault_and_exits_2(here, capsys):
    (here / "config.yaml").write_text("tiers: {fast: {targets: []}}\nwhat: 1\n")

    assert main(["check"]) == 2
    err = capsys.readouterr().err
    assert "tiers.fast.targets" in err
    assert "tiers.deep: missing" in err
    assert "what: no such setting" in err


def test_check_prints_all_model_names_in_the_order_in_which_they_count(here, capsys):
    own = 'models: {mine: deep, "g*": quick-one, "gpt-*": null, claude-fast: deep}\n'
    (here / "config.yaml").write_text(SIMULATED_TIERS + own)

    assert main(["check"]) == 0

    lines = capsys.readouterr().out.partition("models (first match wins):\n")[2].splitlines()
    listed = [tuple(line.split()) for line in lines]
    assert listed[:3] == [("auto", "auto"), ("fast", "fast"), ("deep", "deep")]
    assert ("claude-fast", "deep") in listed
    assert ("mine", "deep") in listed
    assert ("quick-one", "quick-one") in listed
    assert listed[listed.index(("g*", "quick-one")) + 1] == ("*haiku*", "fast")
    assert not any(name == "gpt-*" for name, _ in listed)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com"])
def test_check_refuses_a_host_that_serve_refuses_in_the_same_words(here, capsys, host):
    (here / "config.yaml").write_text(f"{SIMULATED_TIERS}server: {{host: '{host}'}}\n")

    checked = main(["check"]), capsys.readouterr().err
    served = main(["serve"]), capsys.readouterr().err

    assert checked[0] == served[0] == 2
    assert served[1] in checked[1]
    assert "not a loopback address" in served[1]


def test_an_address_that_is_broken_is_a_fault_and_no_traceback(here, capsys):
    target = "{name: a, base_url: 'http://[::1/v1', model: m}"
    (here / "config.yaml").write_text(f"{SIMULATED_TIERS.replace('{name: quick-one, adapter: simulated}', target)}")

    assert main(["check"]) == 2
    assert "tiers.fast.targets[0].base_url: is not a valid address" in capsys.readouterr().err


def test_every_fault_is_told_in_one_round_that_of_the_address_too(here, capsys, monkeypatch):
    monkeypatch.delenv("NOWHERE_KEY", raising=False)
    (here / "config.yaml").write_text(
        """
server: {host: 0.0.0.0}
tiers:
  fast: {targets: [{name: a, base_url: http://h/v1, dialect: klingon, api_key: env:NOWHERE_KEY}, {name: a, adapter: telepathy}]}
  deep: {targets: []}
"""
    )

    assert main(["check"]) == 2

    err = capsys.readouterr().err
    assert "config.yaml: 6 problems" in err
    for said in ("dialect: must be", "NOWHERE_KEY is not set", 'duplicate name "a"', 'unknown adapter "telepathy"'):
        assert said in err
    assert "tiers.deep.targets: needs a target" in err
    assert "server.host: 0.0.0.0 is not a loopback address" in err


def test_check_asks_nobody_unless_it_is_told_to(here, capsys):
    with ModelServer() as server:
        (here / "config.yaml").write_text(two_targets(server.base_url, server.base_url))

        assert main(["check"]) == 0

    assert server.seen == []


def test_check_live_asks_every_target_for_its_models_and_spends_no_token(here, capsys):
    with ModelServer(models=("fast-model", "deep-model")) as server:
        (here / "config.yaml").write_text(two_targets(server.base_url, server.base_url))

        assert main(["check", "--live"]) == 0

    assert {method for method, _, _ in server.seen} == {"GET"}
    assert "knows fast-model" in capsys.readouterr().out


def test_check_live_says_what_is_not_reached(here, capsys):
    (here / "config.yaml").write_text(two_targets("http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1"))

    assert main(["check", "--live"]) == 1

    out = capsys.readouterr().out
    assert "could not be reached" in out
    assert "hint: is a server running at http://127.0.0.1:1/v1?" in out


def test_a_home_that_nobody_has_is_a_path_like_any_other(here, capsys):
    tls = "tls: {ca_file: ~nobody-at-all/ca.pem}, base_url: 'https://h/v1'"
    text = SIMULATED_TIERS.replace("{name: quick-one, adapter: simulated}", f"{{name: a, {tls}}}")
    (here / "config.yaml").write_text(f"{text}ledger: {{path: ~nobody-at-all/t.db}}\n")

    assert main(["check"]) == 2
    assert "tls.ca_file: no such file" in capsys.readouterr().err


def test_check_says_who_receives_the_words_of_turns_in_doubt(here, capsys):
    (here / "config.yaml").write_text(SIMULATED_TIERS)
    assert main(["check"]) == 0
    assert "second opinion" not in capsys.readouterr().out

    asked = two_targets("https://api.quick.example/v1", "https://api.deep.example/v1", extra="second_opinion: {target: spark}")
    (here / "config.yaml").write_text(asked)

    assert main(["check"]) == 0
    assert "  second opinion: spark (api.quick.example) receives the words of turns in doubt" in capsys.readouterr().out


def test_a_small_window_is_a_warning_and_a_models_path_is_not_shown(here, capsys):
    target = "{name: a, base_url: 'http://h/v1', model: /home/me/models/smol.gguf, window_tokens: 9000}"
    text = SIMULATED_TIERS.replace("{name: quick-one, adapter: simulated}", target)
    (here / "config.yaml").write_text(text)

    assert main(["check"]) == 0

    told = capsys.readouterr()
    assert "warning: window too small for coding agents: a (9,000 tokens)" in told.err
    assert "  hint: start the engine with a larger window" in told.err
    assert "a                  smol at http://h/v1" in told.out


def test_a_target_that_was_not_asked_is_never_called_good(here, capsys):
    with ModelServer(status=404) as server:
        (here / "config.yaml").write_text(two_targets(server.base_url, server.base_url, deep_extra="api_key: caller,"))

        assert main(["check", "--live"]) == 0

    told = " ".join(capsys.readouterr().out.split())
    assert "note target fast spark: has no list of models, so its key and model were not checked" in told
    assert "note target deep sage: has no list of models, not called: callers bring their own key" in told
    assert "ok target" not in told


def test_check_says_for_which_names_the_certificate_is_and_when_it_expires(here, capsys):
    write_pair(here)
    (here / "config.yaml").write_text(SIMULATED_TIERS + TLS)

    assert main(["check"]) == 0
    assert "cert.pem: for localhost, 127.0.0.1; expires on 2120-01-01, in " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_key_that_does_not_match_its_certificate_is_a_fault(here, capsys, command):
    write_pair(here, CERT, OTHER_KEY)
    (here / "config.yaml").write_text(SIMULATED_TIERS + TLS)

    assert main([command]) == 2
    err = capsys.readouterr().err
    assert "server.tls.key: is not the key of the certificate in " in err
    assert "hint: name the key that the certificate was made with" in err


def test_check_counts_callers_and_keys_and_names_those_that_expire(here, capsys):
    def key(key_id, expires):
        until = f", expires: {datetime.now(UTC) + timedelta(days=expires):%Y-%m-%dT%H:%M:%SZ}" if expires is not None else ""
        return f'      - {{id: "{key_id * 8}", sha256: "{"0" * 64}", created: 2026-01-01{until}}}\n'

    ada = key("a", 3) + key("b", 60)
    bob = key("c", 13) + key("d", -1)
    path = here / "keys.yaml"
    path.touch(0o600)
    path.write_text(f"callers:\n  ada:\n    keys:\n{ada}  bob:\n    keys:\n{bob}  eve:\n    keys:\n{key('e', None)}")
    (here / "config.yaml").write_text(SIMULATED_TIERS + "keys:\nserver: {host: 0.0.0.0}\n")

    assert main(["check"]) == 0

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    begin = lines.index("keys: 3 callers, 5 keys")
    expiring, last, over, after = lines[begin + 1 : begin + 5]
    assert expiring.startswith("aaaaaaaa of ada expires 20")
    assert expiring.endswith("ada has a newer key")
    assert last.startswith("cccccccc of bob expires 20")
    assert last.endswith("tandem keys rotate bob")
    assert over.startswith("dddddddd of bob expired 20")
    assert after.startswith("models")


def test_check_names_a_file_of_keys_that_does_not_exist(here, capsys):
    (here / "config.yaml").write_text(SIMULATED_TIERS + "keys:\n")

    assert main(["check"]) == 2
    assert "tandem keys add NAME" in capsys.readouterr().err


def test_check_does_not_blame_the_host_of_a_faulty_config_that_asks_for_keys(here, capsys):
    (here / "config.yaml").write_text(SIMULATED_TIERS + "keys:\nserver: {host: 0.0.0.0}\nwhat: 1\n")

    assert main(["check"]) == 2
    err = capsys.readouterr().err
    assert "what: no such setting" in err
    assert "server.host" not in err
