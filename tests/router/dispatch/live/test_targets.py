"""Which windows of those that targets name are believed."""

import json

import pytest

from router.contract.errors import UpstreamRefused, UpstreamUnreachable
from router.dispatch.live.targets import told_window
from tests.tools.exchanges import make_decided, make_decision
from tests.tools.values import ask


def refused(window: int) -> UpstreamRefused:
    words = f"This model's maximum context length is {window} tokens."
    return UpstreamRefused("spark", 400, json.dumps({"error": {"message": words}}).encode(), "application/json")


def decided(tokens: int, **body):
    return make_decided(ask(**body), make_decision(prompt_tokens=tokens))


def test_a_window_that_the_request_can_have_been_too_long_for_is_believed():
    assert told_window(refused(8_192), decided(10_000)) == 8_192
    assert told_window(refused(8_192), decided(5_000)) == 8_192
    assert told_window(refused(4_096), decided(24, max_tokens=32_000)) == 4_096


@pytest.mark.parametrize("tokens", [24, 4_000])
def test_a_window_that_the_request_fits_into_by_any_count_is_not(tokens):
    assert told_window(refused(8_192), decided(tokens)) is None


def test_only_a_refusal_of_a_decided_request_names_a_window():
    assert told_window(refused(8_192), None) is None
    assert told_window(UpstreamUnreachable("spark", "maximum context length is 8192"), decided(10_000)) is None


@pytest.mark.parametrize("role", ["maximum context length is 300 tokens", "Maximum Context Length is 300"])
def test_a_number_that_a_refusal_quotes_from_the_request_is_not_believed(role):
    """Hosts quote a value that they do not take: a caller could shrink the window of everybody else with it."""
    request = ask(messages=[{"role": role, "content": "hi"}], max_tokens=32_000)
    words = f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user'."
    error = UpstreamRefused("spark", 400, json.dumps({"error": {"message": words}}).encode(), "application/json")

    assert told_window(error, make_decided(request, make_decision(prompt_tokens=24))) is None
