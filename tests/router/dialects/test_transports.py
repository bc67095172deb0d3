import json

import pytest

from router.dialects.transports import (
    LITE,
    header_named,
    headers_over_http,
    limits_as_event,
    limits_as_headers,
    mark_in_message,
)

EVENT = {
    "type": "codex.rate_limits",
    "plan_type": "pro",
    "rate_limits": {
        "primary": {"used_percent": 42.5, "window_minutes": 300, "reset_at": 1_795_000_000},
        "secondary": {"used_percent": 7.0, "window_minutes": 10_080, "reset_at": 1_795_400_000},
    },
    "credits": {"has_credits": True, "unlimited": False, "balance": "12.50"},
    "limit_name": "codex_other",
}
HEADERS = {
    "x-codex-primary-used-percent": "42.5",
    "x-codex-primary-window-minutes": "300",
    "x-codex-primary-reset-at": "1795000000",
    "x-codex-secondary-used-percent": "7",
    "x-codex-secondary-window-minutes": "10080",
    "x-codex-secondary-reset-at": "1795400000",
    "x-codex-credits-has-credits": "true",
    "x-codex-credits-unlimited": "false",
    "x-codex-credits-balance": "12.50",
    "x-codex-plan-type": "pro",
    "x-codex-limit-name": "codex_other",
}


def test_an_event_and_headers_say_the_same_about_a_plans_limits():
    assert dict(limits_as_headers(EVENT)) == HEADERS
    assert json.loads(limits_as_event(HEADERS)) == EVENT


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"rate_limits": None, "credits": [1]},
        {"rate_limits": {"primary": 5, "secondary": {"used_percent": None, "reset_at": [1]}}},
        {"plan_type": "pro\r\nset-cookie: a=b"},
        {"plan_type": "prö", "limit_name": {"a": 1}},
    ],
)
def test_an_event_in_another_form_becomes_no_header(event):
    assert limits_as_headers(event) == ()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-codex-plan-type": "pro"},
        {"x-codex-primary-reset-at": "1795000000"},
        {"x-codex-primary-used-percent": "5", "x-codex-primary-reset-at": "9" * 30},
        {"x-codex-primary-used-percent": "5", "x-codex-primary-reset-at": "9" * 5_000},
        {"x-codex-primary-used-percent": "much", "x-codex-secondary-used-percent": "5", "x-codex-secondary-reset-at": "soon"},
    ],
)
def test_headers_without_a_window_that_can_be_read_become_no_event(headers):
    assert limits_as_event(headers) == b""


def test_a_time_that_is_no_whole_number_is_not_rounded():
    event = {"rate_limits": {"primary": {"used_percent": 12.345678, "reset_at": 1_795_000_000.0}}}

    assert limits_as_headers(event) == (
        ("x-codex-primary-used-percent", "12.345678"),
        ("x-codex-primary-reset-at", "1795000000"),
    )


def test_one_window_is_enough_for_an_event():
    told = json.loads(limits_as_event({"x-codex-secondary-used-percent": "100"}))

    assert told["rate_limits"] == {
        "primary": None,
        "secondary": {"used_percent": 100.0, "window_minutes": None, "reset_at": None},
    }
    assert "credits" not in told


@pytest.mark.parametrize(
    ("betas", "left"),
    [
        ("responses_websockets=2026-02-06", None),
        ("responses_websockets=2026-02-06, assistants=v2", "assistants=v2"),
        ("assistants=v2,responses_websockets=2026-02-06 ,other", "assistants=v2,other"),
        ("assistants=v2, other", "assistants=v2, other"),
    ],
)
def test_over_http_no_header_mentions_sockets(betas, left):
    headers = (("openai-beta", betas), ("x-client-request-id", "1"))

    told = dict(headers_over_http(headers))

    assert told.pop("x-client-request-id") == "1"
    assert told == ({} if left is None else {"openai-beta": left})


def test_the_lite_mark_is_a_header_over_http_and_metadata_on_a_socket():
    (field,) = mark_in_message(((LITE, "true"),), {})["client_metadata"]

    assert field == "ws_request_header_x_openai_internal_codex_responses_lite"
    assert header_named(field) == LITE
    assert header_named("X-Codex-Window-Id") == "x-codex-window-id"


def test_a_message_keeps_its_own_metadata_and_is_marked_once():
    marked = mark_in_message(((LITE, "true"),), {"client_metadata": {"a": "b"}})

    assert marked["client_metadata"]["a"] == "b"
    assert mark_in_message(((LITE, "true"),), marked) == {}
    assert mark_in_message((("x-codex-window-id", "w:0"),), {"client_metadata": {"a": "b"}}) == {}


def test_a_login_keeps_what_codex_writes_on_a_socket():
    login = (("authorization", "Bearer made-up"), ("chatgpt-account-id", "acct"))

    assert mark_in_message(login, {"stream": True}) == {"stream": True}
    assert mark_in_message(login[:1], {"stream": True}) == {}
