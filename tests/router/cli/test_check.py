"""`tandem check`."""

import pytest

from router.cli import main

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

    lines = capsys.readouterr().out.partition("models, the first that matches counts:\n")[2].splitlines()
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
    assert "tiers.fast.targets[0].base_url: is not an address" in capsys.readouterr().err
