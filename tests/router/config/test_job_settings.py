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


@pytest.mark.parametrize(("written", "note"), [("", None), ("delegation: {note: item}\n", "item"), ("delegation: {}\n", None)])
def test_a_sessions_model_is_told_of_jobs_only_where_the_config_says_so(written, note):
    assert load_text(SIMULATED + written).config.delegation.note == note


def test_another_kind_of_note_is_a_fault():
    with pytest.raises(ConfigError, match=r"delegation\.note"):
        load_text(SIMULATED + "delegation: {note: system}\n")
