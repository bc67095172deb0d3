"""What a request must change for one target: limits, efforts, and fields that only one host defines."""

import pytest

from router.contract.words import Feature
from tests.tools.bridging import CEREBRAS, CHAT, MESSAGES, OPENAI, RESPONSES, claude, codex_request, crossed
from tests.tools.values import EVERYTHING


def test_a_long_name_of_the_user_is_hashed_and_goes_only_where_it_is_taken():
    body = claude(metadata={"user_id": "{" + "x" * 150 + "}"})

    known, lost = crossed(MESSAGES, CHAT, body, quirks=OPENAI)
    again, _ = crossed(MESSAGES, RESPONSES, body, quirks=OPENAI)
    other, dropped = crossed(MESSAGES, CHAT, body)

    assert len(known["safety_identifier"]) == 64
    assert known["safety_identifier"] == again["safety_identifier"]
    assert lost == ()
    assert "safety_identifier" not in other
    assert dropped == ("safety_identifier",)


def test_a_tier_of_service_goes_only_to_the_host_that_defines_it():
    body = {"input": "x", "service_tier": "priority"}

    assert crossed(RESPONSES, CHAT, body, quirks=OPENAI)[0]["service_tier"] == "priority"
    assert crossed(RESPONSES, CHAT, body)[1] == ("service_tier",)


@pytest.mark.parametrize(("target", "field"), [(CHAT, "max_tokens"), (RESPONSES, "max_output_tokens")])
def test_a_limit_is_lowered_to_what_the_window_leaves_and_said_so(target, field):
    body, dropped = crossed(MESSAGES, target, claude(max_tokens=64_000), window_tokens=32_000, prompt_tokens=20_000)
    least, _ = crossed(MESSAGES, target, claude(max_tokens=64_000), window_tokens=32_000, prompt_tokens=40_000)

    assert body[field] == 12_000
    assert dropped == ("max_tokens lowered to 12000",)
    assert least[field] == 16


@pytest.mark.parametrize(("effort", "word"), [("xhigh", "high"), ("max", "high"), ("minimal", "low"), ("medium", "medium")])
def test_effort_is_said_in_the_hosts_words(effort, word):
    body, _ = crossed(RESPONSES, CHAT, {"input": "x", "reasoning": {"effort": effort}}, quirks=CEREBRAS)

    assert body["reasoning_effort"] == word


def test_effort_is_said_in_the_configs_own_words():
    body, _ = crossed(RESPONSES, CHAT, codex_request(), efforts={"xhigh": "high"})

    assert body["reasoning_effort"] == "high"


def test_a_target_without_reasoning_is_asked_for_none():
    for target in (CHAT, MESSAGES):
        body, dropped = crossed(RESPONSES, target, codex_request(), accepts=EVERYTHING - {Feature.REASONING})
        assert not body.keys() & {"reasoning_effort", "thinking", "output_config"}
        assert "reasoning effort" in dropped
