"""Who sends a request."""

import pytest

from router.contract.caller import LOCAL
from router.contract.words import Dialect
from router.edge.callers import identify


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer x"}, {"x-api-key": "x"}])
def test_without_targets_that_take_callers_keys_everyone_is_the_local_caller(headers):
    assert identify(headers, Dialect.CHAT, by_key=False) is LOCAL


@pytest.mark.parametrize("headers", [{}, {"authorization": "Basic x"}, {"authorization": "Bearer "}, {"x-api-key": " "}])
def test_who_brings_no_key_is_the_local_caller(headers):
    assert identify(headers, Dialect.CHAT, by_key=True) is LOCAL


def test_each_key_is_a_caller_whose_name_does_not_hold_it():
    one, other = (identify({"x-api-key": f"sk-secret-{who}"}, Dialect.CHAT, by_key=True) for who in "ab")

    assert one != other
    assert "secret" not in one.name + other.name
    assert identify({"authorization": "bearer sk-secret-a"}, Dialect.RESPONSES, by_key=True) == one


def test_of_two_keys_the_one_that_goes_to_the_target_counts():
    headers = {"x-api-key": "k", "authorization": "Bearer b"}

    assert identify(headers, Dialect.MESSAGES, by_key=True) == identify({"x-api-key": "k"}, Dialect.CHAT, by_key=True)
    assert identify(headers, Dialect.CHAT, by_key=True) == identify({"x-api-key": "b"}, Dialect.CHAT, by_key=True)
    sent = {**headers, "x-tandem-upstream-key": "u"}
    assert identify(sent, Dialect.CHAT, by_key=True) == identify({"x-api-key": "u"}, Dialect.CHAT, by_key=True)
