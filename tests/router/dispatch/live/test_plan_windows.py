"""Reports of a plan's windows, as Anthropic and ChatGPT write them."""

import json

import pytest

from router.contract.plan_use import FIVE_HOURS, WEEK, PlanWindow, UsedUp
from router.dispatch.live.plan_windows import read_headers, read_used_up

NOW = 1_790_000_000.0
ANTHROPIC = {
    "anthropic-ratelimit-unified-status": "allowed",
    "anthropic-ratelimit-unified-5h-utilization": "0.42",
    "anthropic-ratelimit-unified-5h-reset": str(int(NOW) + 5_400),
    "anthropic-ratelimit-unified-7d-utilization": "0.17",
    "anthropic-ratelimit-unified-7d-reset": str(int(NOW) + 400_000),
    "anthropic-ratelimit-unified-7d_opus-utilization": "0.99",
    "anthropic-ratelimit-unified-7d_opus-reset": str(int(NOW) + 400_000),
}
CODEX = {
    "x-codex-primary-used-percent": "61.5",
    "x-codex-primary-window-minutes": "300",
    "x-codex-primary-reset-at": str(int(NOW) + 1_800),
    "x-codex-secondary-used-percent": "9",
    "x-codex-secondary-window-minutes": "10080",
    "x-codex-secondary-reset-after-seconds": "86400",
}


def test_anthropics_windows_of_all_models_are_read():
    assert read_headers(ANTHROPIC, NOW) == (PlanWindow(0.42, NOW + 5_400), PlanWindow(0.17, NOW + 400_000, WEEK))


def test_codexs_windows_are_read_with_their_own_length():
    assert read_headers(CODEX, NOW) == (PlanWindow(0.615, NOW + 1_800), PlanWindow(0.09, NOW + 86_400, WEEK))
    assert read_headers({**CODEX, "x-codex-primary-window-minutes": "60"}, NOW)[0].seconds == 3_600


@pytest.mark.parametrize("odd", ["", "nan", "inf", "-inf", "many", "1e999"])
def test_a_window_with_an_odd_number_is_left_out(odd):
    assert read_headers({**CODEX, "x-codex-primary-used-percent": odd}, NOW) == read_headers(CODEX, NOW)[1:]
    assert read_headers({**CODEX, "x-codex-primary-reset-at": odd}, NOW) == read_headers(CODEX, NOW)[1:]


def test_a_share_beyond_the_whole_is_the_whole():
    assert read_headers({**CODEX, "x-codex-primary-used-percent": "240"}, NOW)[0].used == 1.0
    assert read_headers({**CODEX, "x-codex-primary-used-percent": "-3"}, NOW)[0].used == 0.0


def test_the_vendors_own_clock_tells_how_long_a_window_lasts():
    ahead = {**ANTHROPIC, "date": "Mon, 21 Sep 2026 15:13:20 GMT"}  # an hour ahead of ours

    assert read_headers(ahead, NOW)[0].resets_at == NOW + 1_800


@pytest.mark.parametrize(
    ("claim", "window"),
    [
        ("five_hour", "5-hour window"),
        ("seven_day", "weekly window"),
        ("seven_day_opus", "weekly Opus window"),
        ("overage", ""),
        ("seven_day_<script>", "weekly window"),
    ],
)
def test_a_refusal_of_anthropic_names_the_window_and_its_reset(claim, window):
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(int(NOW) + 5_400),
        "anthropic-ratelimit-unified-representative-claim": claim,
        "retry-after": "5400",
    }

    assert read_used_up(headers, b"", (), NOW) == UsedUp(NOW + 5_400, window)


def test_a_weeks_refusal_lasts_longer_than_a_day():
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(int(NOW) + 400_000),
        "anthropic-ratelimit-unified-representative-claim": "seven_day",
        "retry-after": "400000",
    }

    assert read_used_up(headers, b"", (), NOW) == UsedUp(NOW + 400_000, "weekly window")


@pytest.mark.parametrize(
    "told",
    [{"resets_at": int(NOW) + 1_800}, {"resets_in_seconds": 1_800}, {"resets_at": int(NOW) + 1_800, "resets_in_seconds": 9}],
)
def test_a_refusal_of_codex_names_its_reset_in_the_body(told):
    body = json.dumps({"error": {"type": "usage_limit_reached", "plan_type": "plus", **told}}).encode()
    full = {**CODEX, "x-codex-primary-used-percent": "100"}

    assert read_used_up({}, body, (), NOW) == UsedUp(NOW + 1_800)
    assert read_used_up(full, body, read_headers(full, NOW), NOW) == UsedUp(NOW + 1_800, "5-hour window")


def test_a_refusal_of_codex_without_a_time_takes_that_of_the_full_window():
    body = json.dumps({"error": {"type": "usage_limit_reached"}}).encode()
    full = read_headers({**CODEX, "x-codex-secondary-used-percent": "100"}, NOW)

    assert read_used_up({}, body, full, NOW) == UsedUp(NOW + 86_400, "weekly window")


def test_another_429_lasts_as_long_as_it_says():
    assert read_used_up({"retry-after": "20"}, b"", (), NOW) == UsedUp(NOW + 20)
    assert read_used_up({}, b'{"error":{"type":"rate_limit_error"}}', (), NOW) is None
    assert FIVE_HOURS == 300 * 60
