"""Keys, headers and query parameters of a target: which values are read from variables, and which names are refused."""

import pytest

from router.config.faults import Fault
from router.config.secrets import SecretChecker
from router.contract.secret import Secret
from router.wiring.build import known_names

ADAPTERS = known_names().adapters
CANARY = "s3cret-canary-0123456789"


def check_headers(headers, *, adapter="openai_http", key=None, keys=None):
    faults: list[Fault] = []
    checker = SecretChecker(faults, keys or {})
    fields = checker.check_headers("headers", headers, ADAPTERS[adapter], Secret(key) if key else None)
    assert CANARY not in "".join(map(str, faults))
    assert CANARY not in repr(fields)
    return {field.name: field.reveal() for field in fields}, {fault.path: fault.problem for fault in faults}


def test_values_are_read_from_variables_alone_or_after_a_scheme(monkeypatch):
    monkeypatch.setenv("GATEWAY_TOKEN", CANARY)

    found, faults = check_headers(
        {"x-portkey-provider": "openai", "X-Portkey-Api-Key": "env:GATEWAY_TOKEN", "cf-aig-authorization": "Bearer env:FILED"},
        keys={"FILED": "out-of-the-file"},
    )

    assert faults == {}
    assert found == {
        "x-portkey-provider": "openai",
        "x-portkey-api-key": CANARY,
        "cf-aig-authorization": "Bearer out-of-the-file",
    }


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("env:NOT_SET_ANYWHERE", "env:NOT_SET_ANYWHERE is not set in the environment, nor in .env next to the config"),
        ("Bearer env:NOT_SET_ANYWHERE", "env:NOT_SET_ANYWHERE is not set in the environment, nor in .env next to the config"),
        (f"env:{CANARY}", "env:***: env: takes the name of a variable, not the key"),
        ("${GATEWAY_TOKEN}", "refers to a variable in a form that is not supported"),
        ("", "must not be empty"),
        ("two\r\nx-injected: lines", "must not be empty, nor contain line breaks"),
    ],
)
def test_a_value_that_cannot_be_sent_is_a_fault(value, problem):
    _, faults = check_headers({"x-a": value})

    assert faults["headers.x-a"].startswith(problem)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("connection", "is a connection header"),
        ("Proxy-Authorization", "is a connection header"),
        ("transfer-encoding", "is a connection header"),
        ("host", "is set by Tandem itself"),
        ("Content-Length", "is set by Tandem itself"),
        ("x a", "is not a valid header name"),
        ("x\r\ninjected", "is not a valid header name"),
        ("", "is not a valid header name"),
    ],
)
def test_names_that_are_not_a_targets_own_are_refused(name, problem):
    assert check_headers({name: "x"})[1][f"headers.{name}"].startswith(problem)


def test_one_name_in_two_spellings_is_refused():
    assert "duplicate" in check_headers({"X-A": "1", "x-a": "2"})[1]["headers.x-a"]


@pytest.mark.parametrize(
    ("adapter", "name", "key", "is_refused"),
    [
        ("openai_http", "authorization", "sk-1", True),
        ("openai_http", "authorization", None, False),
        ("openai_http", "x-api-key", "sk-1", False),
        ("openai_http", "x-api-key", "caller", True),
        ("anthropic_http", "x-api-key", "sk-1", True),
        ("anthropic_http", "authorization", "sk-1", False),
        ("anthropic_http", "authorization", "caller", True),
        ("anthropic_http", "anthropic-version", None, True),
        ("openai_http", "anthropic-version", None, False),
    ],
)
def test_a_header_that_the_key_is_sent_in_already_is_refused(adapter, name, key, is_refused):
    assert bool(check_headers({name: "x"}, adapter=adapter, key=key)[1]) is is_refused
