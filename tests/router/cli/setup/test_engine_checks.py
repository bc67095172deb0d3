"""Where a config and an engine differ."""

from pathlib import Path

import pytest

from router.cli.setup.engine_checks import compare, describe, find_small_windows, room_for_prompt
from router.cli.setup.engines import Engine
from router.config.load import check_config
from router.config.targets import TargetPlan
from router.wiring import known_names
from tests.conftest import SIMULATED
from tests.tools.running import two_targets


def plans_of(fast_extra: str = "", deep_window: int = 400_000) -> tuple[TargetPlan, ...]:
    text = two_targets("http://h/v1", "http://h/v1", fast_extra=fast_extra)
    text = text.replace("window_tokens: 400000", f"window_tokens: {deep_window}")
    return check_config(text, "test", Path("."), known_names()).targets


def test_a_window_larger_than_the_engines_is_wrong_and_the_true_one_is_named():
    plan, _ = plans_of("window_tokens: 32000,")

    (remark,) = compare(plan, Engine("llamacpp", None, {"fast-model": 8192}))

    assert remark.is_wrong
    assert remark.text == "its window_tokens is 32,000, but its engine's window is 8,192 tokens"
    assert "set window_tokens: 8192" in remark.hint


@pytest.mark.parametrize(("quota", "said"), [("", "sets no limit"), ("quota: {in_flight: 3},", "allows 3")])
def test_more_at_once_than_there_are_slots_is_noted(quota, said):
    plan, _ = plans_of(quota)

    (remark,) = compare(plan, Engine("llamacpp", 2))

    assert not remark.is_wrong
    assert remark.text == f"its engine serves 2 requests at a time, and the config {said}"
    assert remark.hint.startswith("set quota.in_flight: 2")


def test_a_config_that_asks_for_no_more_than_there_is_gets_no_remark():
    plan, _ = plans_of("window_tokens: 8192, quota: {in_flight: 1},")
    engine = Engine("llamacpp", 1, {"fast-model": 8192, "other": 4096})

    assert compare(plan, engine) == []
    assert compare(plan, Engine()) == []
    assert describe(plan, engine) == ["window of 8,192 tokens", "serves 1 request at a time"]
    assert describe(plan, Engine()) == []


def test_small_windows_are_named_with_who_serves_coding_agents_instead():
    remark = find_small_windows(plans_of("window_tokens: 8192,"))

    assert "too small for coding agents: spark (8,192 tokens). " in remark.text
    assert remark.text.endswith("; only sage can serve them")


def test_where_every_window_is_small_no_target_serves_coding_agents():
    remark = find_small_windows(plans_of("window_tokens: 4096,", 4096))

    assert remark.text.endswith("; no target here can serve them")


def test_windows_that_coding_agents_fit_into_and_simulated_ones_get_no_remark():
    assert find_small_windows(plans_of("window_tokens: 24000,")) is None
    assert find_small_windows(check_config(SIMULATED, "test", Path("."), known_names()).targets) is None


@pytest.mark.parametrize(("window", "room"), [(2048, 1536), (8192, 6144), (32000, 24000), (200000, 192000)])
def test_a_quarter_of_a_small_window_and_never_more_than_8000_is_left_for_the_answer(window, room):
    assert room_for_prompt(window) == room
