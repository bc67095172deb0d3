"""The address for alerts."""

import pytest

from router.config.alerts import check_webhook
from router.config.faults import Fault

CANARY = "https://hooks.example/T000/s3cret-canary-0123456789"


def check(source, keys=None):
    faults: list[Fault] = []
    found = check_webhook(source, keys or {}, faults)
    told = "\n".join(map(str, faults))
    assert "canary" not in told + repr(found)
    return found, told


def test_without_the_setting_there_is_no_address():
    assert check(None) == (None, "")


def test_an_address_is_read_from_the_environment_or_from_the_file_next_to_the_config(monkeypatch):
    monkeypatch.setenv("HOOK", CANARY)

    found, filed = check("env:HOOK")[0], check("env:FILED", {"FILED": CANARY})[0]

    assert found.reveal() == filed.reveal() == CANARY


def test_an_address_in_the_config_itself_is_refused_and_not_shown():
    assert "must be env:NAME" in check(CANARY)[1]


def test_an_address_after_env_is_refused_and_not_shown():
    assert "takes the name of a variable" in check(f"env:{CANARY}")[1]


def test_a_variable_that_is_not_set_is_named(monkeypatch):
    monkeypatch.delenv("HOOK", raising=False)

    assert "env:HOOK is not set" in check("env:HOOK")[1]


@pytest.mark.parametrize(
    "value",
    ["canary", "ftp://canary/x", "https://", "https://canary:port/", "file:///canary", "https://canary/a b", "//canary"],
)
def test_what_is_not_an_http_address_is_refused_and_not_shown(monkeypatch, value):
    monkeypatch.setenv("HOOK", value)

    assert "does not hold an address" in check("env:HOOK")[1]
