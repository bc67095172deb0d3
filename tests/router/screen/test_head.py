"""The first lines of the screen."""

from dataclasses import replace

import pytest

from router.contract.words import Tier
from router.screen.head import Facts, write_head
from router.screen.text import Style, width_of

REAL = Facts(
    version="0.3.0",
    url="http://127.0.0.1:4000",
    targets=((Tier.FAST, "cerebras gpt-oss-120b"), (Tier.DEEP, "anthropic claude-opus-5-5")),
    preference="balanced",
    ledger="tandem.db",
    connect="tandem connect codex | claude-code | opencode",
    init="tandem init --force",
    is_simulated=False,
)


def test_at_140_columns_the_head_is_three_lines():
    assert write_head(REAL, 140, Style()) == [
        "Tandem 0.3.0   http://127.0.0.1:4000/v1   Claude Code: http://127.0.0.1:4000",
        "fast  cerebras gpt-oss-120b   deep  anthropic claude-opus-5-5   balanced   ledger tandem.db",
        "Connect a client: tandem connect codex | claude-code | opencode   Ctrl-C stops",
        "",
    ]


def test_at_80_columns_it_takes_a_line_more():
    assert write_head(REAL, 80, Style())[1:3] == [
        "fast  cerebras gpt-oss-120b   deep  anthropic claude-opus-5-5   balanced",
        "ledger tandem.db",
    ]


def test_without_a_model_it_says_so_and_how_to_get_one():
    lines = write_head(replace(REAL, is_simulated=True), 80, Style())

    assert "No model is configured: simulated tiers answer.   Your own: tandem init --force" in lines


def test_who_receives_peoples_words_for_a_second_opinion_is_said_at_the_start():
    asked = replace(REAL, second_opinion="cerebras (api.cerebras.ai) receives the words of turns in doubt")

    assert "second opinion  cerebras (api.cerebras.ai) receives the words of turns in doubt" in write_head(asked, 80, Style())


@pytest.mark.parametrize("columns", [20, 40, 80, 140])
def test_no_line_is_wider_than_the_terminal(columns):
    targets = tuple((tier, f"target-{number} a-model-with-a-long-name") for tier in Tier for number in range(8))

    assert all(width_of(line) <= columns for line in write_head(replace(REAL, targets=targets), columns, Style()))


def test_a_target_cannot_steer_the_terminal():
    assert "\x1b" not in "".join(write_head(replace(REAL, targets=((Tier.FAST, "a\x1b[2J"),)), 80, Style()))
