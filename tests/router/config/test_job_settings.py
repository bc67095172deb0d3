"""What the config says of jobs that are over."""

import pytest

from router.config.load import ConfigError
from tests.conftest import SIMULATED
from tests.tools.configs import load_text

GOOD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{url: 'ftp://x/', secret: 'env:HOOK'}", "must begin with https:// or http://"),
        ("{url: 'https://a:b@x:443/', secret: 'env:HOOK'}", "must not contain credentials"),
        ("{url: 'https://', secret: 'env:HOOK'}", "must name a host"),
        ("{url: 'https://x/', secret: 'env:HOOK', events: [response.started]}", "response.completed"),
        ("{url: 'https://x/'}", "webhooks[0].secret"),
    ],
)
def test_a_faulty_entry_is_reported_with_its_path(monkeypatch, entry, problem):
    monkeypatch.setenv("HOOK", GOOD)

    with pytest.raises(ConfigError) as raised:
        load_text(f"{SIMULATED}webhooks: [{entry}]\n")

    assert problem in str(raised.value)
    assert "webhooks[0]" in str(raised.value)


def test_a_note_that_an_older_config_asks_for_is_left_out_with_a_warning():
    loaded = load_text(SIMULATED + "delegation: {note: item, runner: codex exec}\n")

    assert loaded.config.delegation.runner == "codex exec"
    assert [line for line in loaded.warnings if line.startswith("delegation.note: this setting is gone, so remove it; ")]
    assert not any("delegation" in line for line in load_text(SIMULATED + "delegation: {}\n").warnings)


def test_another_setting_of_delegation_is_a_fault():
    with pytest.raises(ConfigError, match=r"delegation\.notes"):
        load_text(SIMULATED + "delegation: {notes: item}\n")
