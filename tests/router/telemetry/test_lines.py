"""The line that a person reads for each request."""

import pytest
from msgspec.structs import replace

from router.contract.words import Outcome, Tier
from router.telemetry.lines import entry_line
from tests.router.telemetry.test_events import SETTLED

SERVED = replace(SETTLED, tier=Tier.FAST, target="spark", tokens_estimated=False)
REFUSED = replace(SETTLED, tier=None, status=404, error="model_not_found", outcome=Outcome.REFUSED)


def line_of(entry, *, colour: bool = False) -> str:
    return entry_line(entry, has_colour=colour)


def test_a_request_that_was_served_is_told_with_tier_target_reason_and_figures():
    assert line_of(SERVED) == (
        "fast → spark        looks like a quick edit  first token 80 ms, speed 55 tok/s, took 0.9 s, overhead 1.5 ms"
    )


def test_what_is_not_known_is_not_told_and_a_guess_is_marked():
    line = line_of(replace(SERVED, ttft_ms=None, tokens_estimated=True))

    assert "first token" not in line
    assert "speed ~ 55 tok/s" in line


@pytest.mark.parametrize(
    ("error", "said"), [("upstream_cut", "cut short upstream cut  looks"), (None, "cut short  looks like a quick edit")]
)
def test_an_outcome_other_than_served_stands_before_the_reason(error, said):
    assert said in line_of(replace(SERVED, outcome=Outcome.CUT_SHORT, error=error))


def test_before_any_target_was_tried_the_tier_of_the_decision_is_told_alone():
    line = line_of(replace(SERVED, tier=Tier.DEEP, target=None))

    assert line.startswith("deep ")
    assert "→" not in line


def test_a_request_that_was_never_decided_is_told_by_status_and_code():
    assert line_of(REFUSED) == "404 refused  model not found  chat  req_1"


@pytest.mark.parametrize("entry", [SERVED, replace(SERVED, outcome=Outcome.FAILED), REFUSED])
def test_colour_adds_and_never_carries_meaning(entry):
    coloured = line_of(entry, colour=True)

    assert "\x1b[" in coloured
    for code in ("\x1b[31m", "\x1b[32m", "\x1b[34m", "\x1b[2m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == line_of(entry)


def test_the_tiers_differ_in_colour():
    assert line_of(SERVED, colour=True)[:5] != line_of(replace(SERVED, tier=Tier.DEEP), colour=True)[:5]


def test_a_caller_is_named_unless_it_is_the_local_user():
    assert line_of(replace(SERVED, caller="ada")).startswith("fast → spark        ada  looks like")
    assert line_of(replace(REFUSED, caller="a\x1b[2J")).startswith("404 refused  'a\\x1b[2J'  model not found")
    assert "local" not in line_of(SERVED)


def test_a_request_that_the_router_answered_itself_was_not_refused():
    assert line_of(replace(REFUSED, status=200, error=None, outcome=Outcome.SERVED, caller="kim")) == (
        "answered by the router  kim  chat  req_1"
    )


@pytest.mark.parametrize("outcome", [Outcome.ABANDONED, Outcome.INTERRUPTED])
def test_there_is_one_word_for_interrupted(outcome):
    assert "  interrupted  looks like" in line_of(replace(SERVED, outcome=outcome))
