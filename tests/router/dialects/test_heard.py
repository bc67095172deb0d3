"""What an answer says is heard in every dialect, and nothing where it is none."""

import json

import pytest

from router.contract.words import Dialect
from router.dialects.heard import hear
from tests.tools.upstream import CHAT_ANSWER, GOOD_CHAT_STREAM

CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}


def test_a_whole_answer_and_a_stream_are_heard_alike():
    assert hear(Dialect.CHAT, json.dumps(CHAT_ANSWER).encode()).texts == ["hi"]
    assert "".join(hear(Dialect.CHAT, b"".join(GOOD_CHAT_STREAM)).texts) == "ab"


def test_calls_are_heard_by_their_ids():
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    answer = {**CHAT_ANSWER, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}

    heard = hear(Dialect.CHAT, json.dumps(answer).encode())

    assert (heard.texts, heard.calls) == ([], ["c1"])


def test_a_call_of_a_tool_that_the_client_runs_is_heard_by_its_id():
    item = {"type": "shell_call", "id": "sh_1", "call_id": "c1", "status": "completed", "action": {"commands": ["ls"]}}

    heard = hear(Dialect.RESPONSES, json.dumps({"object": "response", "status": "completed", "output": [item]}).encode())

    assert heard.calls == ["c1"]


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [(Dialect.CHAT, b"{}"), (Dialect.CHAT, b'{"choices": 3}'), (Dialect.CHAT, b"{"), (Dialect.COMPLETIONS, b"{}")],
)
def test_what_is_no_answer_says_nothing(dialect, answer):
    assert hear(dialect, answer) is None
