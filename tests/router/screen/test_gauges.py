"""Targets and regret as lines."""

from router.screen.gauges import write_regret, write_targets

SPARK = {"tier": "fast", "in_flight": 2, "ttft_seconds": 0.21, "tokens_per_second": 812.3, "wait_seconds": 0.0}


def test_each_target_is_a_line_with_fast_ones_first():
    sage = {"tier": "deep", "ttft_seconds": 1.4, "tokens_per_second": 70, "wait_seconds": 4.0, "wait_because": "a queue"}

    assert write_targets({"targets": {"sage": sage, "spark": SPARK}}) == [
        "fast  spark  first token 0.2s, 812 tokens/s, 2 running",
        "deep  sage   first token 1.4s, 70 tokens/s, wait 4.0s (a queue)",
    ]


def test_of_many_targets_some_are_counted():
    assert write_targets({"targets": {f"t{number}": SPARK for number in range(9)}})[-1] == "and 3 more targets"


def test_what_is_not_there_is_left_out():
    assert write_targets({}) == []
    assert write_targets({"targets": {"a": {"tier": "fast"}}}) == ["fast  a  first token -"]


def test_regret_is_one_line_that_says_what_is_estimated():
    figures = {
        "saved_seconds": {"value": 754.0, "unit": "seconds", "sure": "estimated"},
        "lost_seconds": {"value": 41.0, "unit": "seconds", "sure": "measured"},
        "saved_usd": {"value": 1.2, "unit": "usd", "sure": "estimated"},
    }

    assert write_regret({"turns": 3, "figures": figures}, "24h") == ["last 24h: saved about 12m34, lost 41s, saved about $1.20"]
    assert write_regret({"turns": 0, "figures": figures}, "24h") == []
