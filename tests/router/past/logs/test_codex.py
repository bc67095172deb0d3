"""Codex's rollouts."""

import json

from tests.router.past.logs.written import TURNS, read
from tests.tools.histories import Told, codex_log


def test_a_patch_inside_a_shell_command_is_an_edit(tmp_path):
    text = codex_log([Told("fix it", ("exec_command",))]).replace('"arguments": "{}"', '"arguments": "*** Begin Patch"')

    (session,), _ = read(tmp_path, ("rollout-1.jsonl", text))

    assert session.turns[0].edits == 1


def test_a_subagents_rollout_is_no_session_of_the_person(tmp_path):
    sessions, tally = read(tmp_path, ("rollout-1.jsonl", codex_log(TURNS, source={"subagent": "review"})))

    assert sessions == []
    assert tally.side_sessions == 1


def test_codex_items_without_an_envelope_are_read_too(tmp_path):
    text = '{"id": "1", "instructions": null}\n{"record_type": "state"}\n'
    text += '{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]}\n'
    text += '{"type": "function_call", "name": "shell", "call_id": "a", "arguments": "{}"}\n'

    (session,), _ = read(tmp_path, ("rollout-1.jsonl", text))

    assert (session.turns[0].words, session.turns[0].calls) == ("fix it", ("shell",))


def test_a_payload_whose_type_is_no_text_is_passed_over(tmp_path):
    odd = json.dumps({"type": "response_item", "payload": {"type": ["function_call"]}})

    (session,), _ = read(tmp_path, ("rollout-1.jsonl", f"{codex_log(TURNS)}{odd}\n"))

    assert len(session.turns) == len(TURNS)
