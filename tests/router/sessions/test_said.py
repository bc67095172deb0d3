"""An answer is known again in a later history, however its client wrote it there."""

import json

import pytest

from router.contract.words import Dialect
from router.sessions.said import UNKNOWN, mark_answer, mark_said
from tests.tools.upstream import GOOD_CHAT_STREAM
from tests.tools.values import make_view

CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}


def chat_answer(**message) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return json.dumps({"id": "c", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}).encode()


def history(*answer: dict, dialect: Dialect = Dialect.CHAT, field: str = "messages"):
    body = {field: [{"role": "user", "content": "a"}, *answer, {"role": "user", "content": "b"}], "max_tokens": 9}
    return make_view(body, dialect).conversation


def test_an_answer_is_the_same_with_other_blanks_and_in_blocks():
    mark = mark_answer(Dialect.CHAT, chat_answer(content="Yes, of  course.\n"))

    assert mark == mark_said(history({"role": "assistant", "content": "Yes, of course."}), 1)
    assert mark == mark_said(history({"role": "assistant", "content": [{"type": "text", "text": "Yes, of course."}]}), 1)
    assert mark != mark_said(history({"role": "assistant", "content": "No."}), 1)


def test_a_stream_has_the_mark_of_what_it_said():
    streamed = b"".join(GOOD_CHAT_STREAM)
    words = "".join(
        json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
        for line in streamed.decode().splitlines()
        if line.startswith("data: {") and json.loads(line[6:])["choices"]
    )

    assert words
    assert mark_answer(Dialect.CHAT, streamed) == mark_said(history({"role": "assistant", "content": words}), 1)


def test_an_answer_of_calls_alone_is_known_by_them():
    mark = mark_answer(Dialect.CHAT, chat_answer(content=None, tool_calls=[CALL]))

    assert mark == mark_said(history({"role": "assistant", "content": None, "tool_calls": [CALL]}), 1)
    assert mark != mark_said(history({"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": "c2"}]}), 1)


def test_the_other_dialects_are_read_too():
    message = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn",
               "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
    item = {"id": "i", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}
    response = {"id": "r", "object": "response", "status": "completed", "output": [item]}
    reasoning = {"type": "reasoning", "id": "rs", "summary": []}
    mark = mark_answer(Dialect.MESSAGES, json.dumps(message).encode())

    assert mark == mark_said(history({"role": "assistant", "content": "Yes."}, dialect=Dialect.MESSAGES), 1)
    assert mark == mark_answer(Dialect.RESPONSES, json.dumps(response).encode())
    assert mark == mark_said(history(reasoning, item, dialect=Dialect.RESPONSES, field="input"), 1)


@pytest.mark.parametrize(
    "answer", [b"", b"{}", b"[]", b"{", b'{"choices": 3}', b"data: {}\n\n", b'{"error": {"message": "no"}}']
)
def test_what_says_nothing_is_in_no_history(answer):
    assert mark_answer(Dialect.CHAT, answer) == UNKNOWN
    assert mark_answer(Dialect.COMPLETIONS, answer) == UNKNOWN
    assert mark_said(history({"role": "assistant", "content": ""}), 1) == UNKNOWN
