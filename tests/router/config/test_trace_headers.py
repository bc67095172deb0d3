"""`traces.headers` and `traces.endpoint`: what is taken, and what is refused without showing it."""

import pytest

from router.config.faults import ConfigError, Fault
from router.config.load import check_config
from router.config.secrets import SecretChecker
from router.config.trace_headers import read_trace_headers
from router.wiring.build import known_names
from tests.conftest import SIMULATED

CANARY = "s3cret-canary-0123456789"


def read(source, keys=None):
    faults: list[Fault] = []
    found = read_trace_headers(source, SecretChecker(faults, keys or {}))
    assert CANARY not in "".join(map(str, faults))
    return found, [fault.problem for fault in faults]


def test_without_the_setting_there_are_none():
    assert read(None) == ((), [])


def test_headers_are_read_from_the_variable_as_opentelemetry_writes_them(monkeypatch):
    monkeypatch.setenv("TRACE_HEADERS", f"Authorization=Basic%20{CANARY}%3D, x-scope = team%2Ca ,,")

    assert read("env:TRACE_HEADERS") == ((("authorization", f"Basic {CANARY}="), ("x-scope", "team,a")), [])


def test_the_variable_may_be_in_the_file_next_to_the_config():
    assert read("env:TRACE_HEADERS_OF_FILE", {"TRACE_HEADERS_OF_FILE": "x-key=1"}) == ((("x-key", "1"),), [])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (CANARY, "env:TRACE_HEADERS: entry 1 is not a header"),
        (f"a=1,b c={CANARY}", "env:TRACE_HEADERS: entry 2 is not a header"),
        (f"a={CANARY}%0d%0ab: 1", "env:TRACE_HEADERS: entry 1 is not a header"),
        (f"=a{CANARY}", "env:TRACE_HEADERS: entry 1 is not a header"),
        (f"Host={CANARY}", 'env:TRACE_HEADERS: "host" is set by Tandem itself'),
    ],
)
def test_what_is_not_a_header_is_a_fault_that_does_not_show_it(monkeypatch, value, problem):
    monkeypatch.setenv("TRACE_HEADERS", value)

    assert read("env:TRACE_HEADERS")[1] == [problem]


def test_a_literal_and_a_variable_that_is_not_set_are_faults():
    assert read(f"x-key={CANARY}") == ((), ["must name a variable, as env:NAME"])
    found, (problem,) = read("env:TRACE_HEADERS_NOT_SET")
    assert (found, "is not set in the environment" in problem) == ((), True)


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("127.0.0.1:4318", "must begin with http:// or https://"),
        ("http://127.0.0.1:4318/v1/traces", "must not end in /v1/traces"),
        ("http://me:secret@127.0.0.1:4318", "must not contain a query, a fragment or credentials"),
        ("http://127.0.0.1:99999", "must have a port between 1 and 65535"),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_a_fault(endpoint, problem, tmp_path):
    with pytest.raises(ConfigError) as refused:
        check_config(f"{SIMULATED}\ntraces: {{endpoint: '{endpoint}'}}\n", "test", tmp_path, known_names())

    assert [(fault.path, problem in fault.problem) for fault in refused.value.faults] == [("traces.endpoint", True)]
