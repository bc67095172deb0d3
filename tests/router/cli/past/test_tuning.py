"""What `tandem tune` found, in lines and as JSON."""

from router.cli.past.tuning import as_json, readable, taught_json, write_offsets, write_taught
from router.contract.economics import Offset
from router.contract.personal import Kind, PersonalTable
from router.contract.words import Tier
from router.past.marks import Taught
from router.past.rules import FoundRule
from router.past.tune import Change, Fit, Tuning

PRESENT, FITTED = Fit(0.5, 0.0), Fit(0.4, -0.25)
RULES = (FoundRule("deploy", Tier.DEEP, 140, 139, 60, 60), FoundRule("docs", Tier.FAST, 90, 90, 30, 29))
BETTER, WORSE = Change(100.0, 2.0, -110.0, -80.0), Change(10.0, 11.0, -1.0, 2.0)


def make(rules=(), *, harms=False, regret=BETTER) -> Tuning:
    return Tuning(PRESENT, FITTED, rules, harms, 280, 120, 24, 70, regret, Change(0.4, 0.3, -0.2, -0.1))


def test_a_fit_is_told_with_what_it_changes():
    assert readable(make()).splitlines() == [
        "fitted to 280 earlier turns, tested on 120 later ones (24 sessions)",
        "",
        "decision.base_rate          0.5 → 0.4",
        "decision.personal_log_odds  0 → -0.25",
        "",
        "tier changes    70 of 120 turns",
        "regret per 100  100.0 → 2.0 (change -110.0 to -80.0; less is better)",
        "log loss        0.400 → 0.300 (change -0.200 to -0.100; less is better)",
        "",
        "No sign of harm on the held-out part.",
    ]


def test_what_routers_learn_of_callers_is_told_by_caller():
    assert write_offsets({"ada": Offset(0.3, 1), "hopper": Offset(-0.42, 112)}).splitlines() == [
        "learned by the router from what turns took (decision.personal: off switches it off)",
        "  hopper  -0.42 from 112 turns",
        "  ada     +0.30 from 1 turn",
    ]


def test_rules_are_told_with_how_often_they_were_right():
    lines = readable(make(RULES)).splitlines()

    assert lines[4:6] == [
        "new rule                    deploy → deep: right in 139 of 140 earlier turns, in 60 of 60 later ones",
        "new rule                    docs   → fast: right in 90 of 90 earlier turns, in 29 of 30 later ones",
    ]


def test_values_that_may_harm_next_to_rules_that_help_are_said_to_be_left():
    assert "0 → -0.25  (not applied: the held-out part may get worse with it)" in readable(make(RULES, harms=True))
    assert "The held-out part may get worse." in readable(make(harms=True, regret=WORSE))


def test_a_program_is_told_the_same():
    told = as_json(make(RULES), PRESENT, 400, "")

    assert told["rules"][0] == {
        "words": "deploy",
        "tier": "deep",
        "seen": 140,
        "right": 139,
        "held_out_seen": 60,
        "held_out_right": 60,
    }
    assert (told["may_harm"], told["offset_may_harm"]) == (False, False)
    assert as_json(None, PRESENT, 5, "too little") == {
        "present": {"base_rate": 0.5, "personal_log_odds": 0.0},
        "fitted": None,
        "known_turns": 5,
        "because": "too little",
    }


def test_what_marks_teach_is_told_with_what_it_does_to_other_turns():
    taught = Taught(PersonalTable("w", (Kind(4.0, {1: 1.0}, 16),)), 16, {}, 0, 16, 140, 1)

    assert write_taught(taught).splitlines() == [
        "marked turns    0 → 16 of 16 where you said (1 kind of ask)",
        "other turns     1 of 140 change their tier with them",
    ]
    assert taught_json(taught) == {
        "turns": 16,
        "kinds": 1,
        "right_before": 0,
        "right_after": 16,
        "other_turns": 140,
        "other_turns_moved": 1,
    }
