"""What a request cost, as `tandem why` tells it."""

import pytest

from router.cli.past.cost import write_cost

SERVED = {
    "target": "sage",
    "status": 200,
    "error": None,
    "seconds": 4.2,
    "usage": {"input_tokens": 1_200, "output_tokens": 88},
    "cost_usd": 0.012,
}
UNUSABLE = {
    "target": "spark",
    "status": 200,
    "error": "upstream_malformed",
    "seconds": 0.3,
    "usage": {"input_tokens": 1_200, "output_tokens": 10, "is_estimated": True},
    "cost_usd": 0.004,
}
REFUSED = {"target": "spark", "status": 429, "error": "upstream_refused", "seconds": 0.1, "usage": None, "cost_usd": 0.0}


def test_one_attempt_that_served_is_only_its_cost():
    assert write_cost({"attempts": [SERVED], "cost_usd": 0.012}) == ["cost        $0.012"]


def test_two_attempts_are_told_apart():
    assert write_cost({"attempts": [UNUSABLE, SERVED], "cost_usd": 0.016}) == [
        "cost        $0.016",
        "attempts",
        "  spark: upstream_malformed (200), 0.3s, 1.2k tokens in, 10 out, estimated, $0.004",
        "  sage: served, 4.2s, 1.2k tokens in, 88 out, $0.012",
    ]


def test_a_question_is_told_from_what_served():
    asked = {**SERVED, "target": "spark", "seconds": 0.2, "cost_usd": 0.001, "is_question": True}
    late = {**asked, "status": None, "error": "late", "usage": None, "cost_usd": 0.0}

    assert write_cost({"attempts": [asked, SERVED], "cost_usd": 0.013})[2:] == [
        "  spark: second opinion, 0.2s, 1.2k tokens in, 88 out, $0.001",
        "  sage: served, 4.2s, 1.2k tokens in, 88 out, $0.012",
    ]
    assert write_cost({"attempts": [late, SERVED], "cost_usd": 0.012})[2] == "  spark: second opinion, late, 0.2s, $0.000"


def test_a_refusal_costs_nothing_and_used_nothing():
    assert write_cost({"attempts": [REFUSED], "cost_usd": 0.0}) == [
        "cost        $0.000",
        "attempts",
        "  spark: upstream_refused (429), 0.1s, $0.000",
    ]


@pytest.mark.parametrize(
    ("attempts", "said"),
    [
        ([{**SERVED, "cost_usd": None}], "unknown: no price is configured for sage"),
        ([{**UNUSABLE, "cost_usd": None}, SERVED], "at least $0.012: no price is configured for spark"),
        ([{**UNUSABLE, "cost_usd": None}, {**SERVED, "cost_usd": None}], "unknown: no price is configured for sage, spark"),
        ([{key: SERVED[key] for key in ("target", "status", "error", "seconds")}], "unknown"),
        ([], "unknown"),
        (None, "unknown"),
        ("somebody else's", "unknown"),
    ],
    ids=["unpriced", "a part", "neither", "an older row", "none", "absent", "foreign"],
)
def test_an_unknown_cost_is_never_nothing_and_says_whose_price_is_missing(attempts, said):
    assert write_cost({"attempts": attempts, "cost_usd": None})[0] == f"cost        {said}"
