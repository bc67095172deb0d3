"""Claude Code's project logs."""

from dataclasses import replace

import pytest

from router.past.cases import cases_of
from tests.router.past.logs.written import read
from tests.tools.histories import LONG, QUICK, Told, claude_log


def test_a_sidechain_is_no_turn_of_the_person(tmp_path):
    text = claude_log([QUICK]) + claude_log([LONG]).replace('"isSidechain": false', '"isSidechain": true')

    (session,), _ = read(tmp_path, ("one.jsonl", text))

    assert [turn.words for turn in session.turns] == [QUICK.words]


@pytest.mark.parametrize(
    "words",
    [
        "<command-name>/model</command-name>",
        "<bash-input>ls</bash-input>",
        "<local-command-stdout>Set model</local-command-stdout>",
        "This session is being continued from a previous conversation that ran out of context.",
    ],
)
def test_what_nobody_typed_to_the_model_is_no_turn(tmp_path, words):
    (session,), _ = read(tmp_path, ("one.jsonl", claude_log([QUICK, Told(words)])))

    assert [turn.words for turn in session.turns] == [QUICK.words]


def test_numbers_beyond_all_reason_say_nothing(tmp_path):
    text = claude_log([replace(QUICK, prompt_tokens=777)]).replace("776", "1e308")

    sessions, _ = read(tmp_path, ("one.jsonl", text))

    assert sessions[0].turns[0].prompt_tokens == 1
    assert len(list(cases_of(sessions))) == 1


def test_a_call_nested_beyond_all_reason_costs_nothing_else(tmp_path):
    text = claude_log([QUICK]).replace('"input": {}', '"input": ' + '{"a":' * 1000 + "1" + "}" * 1000)

    (session,), tally = read(tmp_path, ("one.jsonl", text))

    assert session.turns[0].calls == ("Read", "Edit")
    assert (tally.broken_lines, tally.unreadable_files) == (0, 0)
