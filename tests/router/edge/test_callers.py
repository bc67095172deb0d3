"""Who sends a request."""

import pytest

from router.contract.caller import LOCAL
from router.edge import callers
from tests.tools.edge import FakePlan

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


def identify(headers, path, *, by_key):
    return callers.identify(FakePlan(takes_callers_keys=by_key), headers, path)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer x"}, {"x-api-key": "x"}])
def test_without_targets_that_take_callers_keys_everyone_is_the_local_caller(headers):
    assert identify(headers, CHAT, by_key=False) is LOCAL


@pytest.mark.parametrize("headers", [{}, {"authorization": "Basic x"}, {"authorization": "Bearer "}, {"x-api-key": " "}])
def test_who_brings_no_key_is_the_local_caller(headers):
    assert identify(headers, CHAT, by_key=True) is LOCAL


def test_each_key_is_a_caller_whose_name_does_not_hold_it():
    one, other = (identify({"x-api-key": f"sk-secret-{who}"}, CHAT, by_key=True) for who in "ab")

    assert one != other
    assert "secret" not in one.name + other.name
    assert identify({"authorization": "bearer sk-secret-a"}, RESPONSES, by_key=True) == one


def test_of_two_keys_the_one_that_goes_to_the_target_counts():
    headers = {"x-api-key": "k", "authorization": "Bearer b"}

    assert identify(headers, MESSAGES, by_key=True) == identify({"x-api-key": "k"}, CHAT, by_key=True)
    assert identify(headers, CHAT, by_key=True) == identify({"x-api-key": "b"}, CHAT, by_key=True)
    sent = {**headers, "x-tandem-upstream-key": "u"}
    assert identify(sent, CHAT, by_key=True) == identify({"x-api-key": "u"}, CHAT, by_key=True)
