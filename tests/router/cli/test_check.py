"""`tandem check`."""

from router.cli import main


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
