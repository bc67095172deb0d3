"""A decision for a person's eyes: every part of it in a line, and none that says nothing."""

import pytest

from router.cli.past.explanation import write_explanation

DECISION = {
    "tier": "fast",
    "because": "looks like a quick edit",
    "turn_kind": "ask",
    "client": "codex",
    "session": "codex:abc",
    "prompt_tokens": 120,
    "prompt_tokens_exact": False,
    "score": 0.126,
    "decided_by": "estimate",
    "evidence": [
        {"policy": "learned", "kind": "lean", "log_odds": -1.5, "because": "looks like a quick edit", "target": None},
        {"policy": "window", "kind": "rule_out", "log_odds": None, "because": "too long", "target": "spark"},
    ],
    "estimates": {
        "fast": {
            "target": "spark",
            "seconds": 4.26,
            "money_usd": 0.0123,
            "redo_seconds": 1.5,
            "calls_ratio": 1.0,
            "output_ratio": 1.0,
        },
        "deep": {
            "target": "sage",
            "seconds": 9.0,
            "money_usd": None,
            "redo_seconds": 0.0,
            "calls_ratio": 1.25,
            "output_ratio": 0.8,
        },
    },
    "flip": {"score": 0.3, "fast_wait_seconds": 7.94},
    "skipped": [],
}


def lines_of(redone: dict | None = None, **change) -> list[str]:
    return write_explanation({**DECISION, **change}, redone).splitlines()


def test_a_decision_is_told_from_its_reason_to_what_would_change_it():
    assert lines_of() == [
        "fast  looks like a quick edit",
        "",
        "turn        ask, client codex, session codex:abc",
        "prompt      120 tokens (estimated)",
        "long task   13% chance",
        "evidence",
        "  -1.50     learned: looks like a quick edit",
        "  rule_out  window: too long (spark)",
        "estimates",
        "  fast  2.8s, $0.012 (spark)",
        "  deep  9.0s (sage; its turns take 1.25 times the expected calls, 0.80 times the expected output)",
        "would flip  if the long-task chance were 30%, or the wait on fast 7.9s",
    ]


def test_a_session_that_was_only_guessed_and_an_unknown_client_are_not_named():
    assert "turn        ask" in lines_of(client="unknown", session="unknown:~8f3a")


def test_tokens_that_were_counted_are_said_to_be():
    assert "prompt      120 tokens (counted)" in lines_of(prompt_tokens_exact=True)


def test_a_count_that_was_not_ready_in_time_is_reported_with_the_range_of_the_estimate():
    late = "prompt      120 tokens (estimated, between 96 and 163: the exact count was not ready in time)"
    assert late in lines_of(prompt_tokens_range=[96, 163])


def test_without_evidence_there_is_none():
    lines = lines_of(evidence=[])

    assert lines[lines.index("evidence") + 1] == "  none"


@pytest.mark.parametrize(
    ("flip", "decided_by", "said"),
    [
        ({"score": 0.3, "fast_wait_seconds": None}, "estimate", "if the long-task chance were 30%"),
        ({"score": None, "fast_wait_seconds": 2.0}, "estimate", "if the wait on fast were 2.0s"),
        ({"score": None, "fast_wait_seconds": None}, "insist", "only with a different override"),
        ({"score": None, "fast_wait_seconds": None}, "rule_out", "never: no other tier can serve this"),
    ],
)
def test_what_would_change_the_decision_is_said_in_each_case(flip, decided_by, said):
    assert f"would flip  {said}" in lines_of(flip=flip, decided_by=decided_by)


def test_what_a_target_would_not_be_sent_and_who_was_not_heard_are_told():
    lines = lines_of(drops={"spark": ["seed", "logprobs"]}, skipped=[{"policy": "oracle", "reason": "ValueError"}])

    assert lines[-2:] == ["drops       seed, logprobs (spark)", "skipped     oracle: ValueError"]


def test_an_estimate_from_before_ratios_were_learnt_is_told_without_them():
    old = {"target": "sage", "seconds": 9.0, "money_usd": None, "redo_seconds": 0.0}

    assert "  deep  9.0s (sage)" in lines_of(estimates={"deep": old})


def test_a_wait_for_a_quota_is_told():
    assert "waited      4.2s for spark, which had no room" in lines_of(queued=[{"target": "spark", "seconds": 4.2}])


REDO = {
    "chance": 0.0652,
    "seconds": 92.4,
    "money_usd": 0.0,
    "quick_rate": 0.05,
    "long_rate": 0.25,
    "assumed": {"quick_rate": 0.05, "long_rate": 0.25},
    "learned_turns": 0,
}


def test_the_risk_of_a_redo_is_told_with_what_was_assumed():
    assert "redo        6.5 % chance that fast's answer is wrong (assumed: 5 % of quick work, 25 % of long work)" in lines_of(
        redo=REDO
    )


def test_the_risk_of_a_redo_is_told_with_what_was_learned():
    learned = {**REDO, "learned_turns": 312, "quick_rate": 0.041, "long_rate": 0.3, "money_usd": 0.5}

    assert (
        "redo        6.5 % chance that fast's answer is wrong"
        " (learned from 312 turns: 4.1 % of quick work, 30 % of long work)" in lines_of(redo=learned)
    )


def test_the_chance_of_a_redo_is_followed_by_what_redone_turns_took():
    redo, redone, flip = lines_of({"turns": 3, "seconds": 37.2}, redo=REDO)[-3:]

    assert redo.startswith("redo        6.5 % chance that fast's answer is wrong")
    assert redone == "redone      3 turns in the last 7 days; fast had worked 12s on each, on average"
    assert flip.startswith("would flip  if the long-task chance were 30%")


@pytest.mark.parametrize("redone", [None, {"turns": 0, "seconds": 0.0}])
def test_nothing_is_said_of_redone_turns_where_there_are_none(redone):
    assert not [line for line in lines_of(redone, redo=REDO) if line.startswith("redone")]
