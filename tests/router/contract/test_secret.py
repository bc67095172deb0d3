"""Whose key is it: references, the caller's own, and variables that no library may find."""

import os

import pytest

from router.contract.secret import Secret, read_callers_key, withhold_variables


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, ""),
        ({"authorization": "Bearer abc"}, "abc"),
        ({"authorization": "bearer  abc "}, "abc"),
        ({"authorization": "Basic abc"}, ""),
        ({"x-api-key": "def"}, "def"),
        ({"authorization": "Bearer abc", "x-api-key": "def"}, "abc"),
        ({"authorization": "Bearer abc", "x-api-key": "def", "x-tandem-upstream-key": "ghi"}, "ghi"),
    ],
)
def test_the_callers_key_is_read_from_the_header_that_is_most_explicit(headers, key):
    assert read_callers_key(headers) == key


def test_a_secret_never_prints_its_value(monkeypatch):
    monkeypatch.setenv("SOME_TEST_KEY", "canary")

    printed = [str(Secret(source)) for source in ("env:SOME_TEST_KEY", "canary-literal", "caller")]

    assert printed == ["env:SOME_TEST_KEY", "***", "caller"]
    assert Secret("caller").reveal() == ""


def test_a_withheld_variable_is_found_by_its_secret_and_by_nobody_else(monkeypatch):
    monkeypatch.setenv("WITHHELD_TEST_KEY", "canary")

    withhold_variables(lambda name: name == "WITHHELD_TEST_KEY")

    assert "WITHHELD_TEST_KEY" not in os.environ
    assert Secret("env:WITHHELD_TEST_KEY").reveal() == "canary"
