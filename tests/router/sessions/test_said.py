"""The assistant's last message before short words, in every dialect."""

import pytest

from router.contract.words import Dialect
from router.sessions.turns import read_turn
from tests.tools.values import make_view

SAID = "Six tables still use the old type. Shall I migrate them?"


def body_of(dialect: Dialect, reply: str, *, between: list | None = None) -> dict:
    talk = [
        {"role": "user", "content": "why does it round?"},
        {"role": "assistant", "content": SAID},
        *(between or []),
        {"role": "user", "content": reply},
    ]
    return {"input": talk} if dialect is Dialect.RESPONSES else {"messages": talk, "max_tokens": 100}


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES])
def test_short_words_come_with_what_the_assistant_said(dialect):
    assert read_turn(make_view(body_of(dialect, "yes"), dialect)).said == SAID


def test_long_words_come_without_it():
    assert read_turn(make_view(body_of(Dialect.CHAT, "please rename it " * 10))).said == ""


def test_a_tool_loop_has_what_was_said_before_the_words_and_not_after_them():
    loop = [
        {"role": "user", "content": "yes"},
        {"role": "assistant", "content": "I begin with the first table, then the other five.", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]  # fmt: skip
    body = body_of(Dialect.CHAT, "yes")
    body["messages"] = [*body["messages"][:-1], *loop]

    assert read_turn(make_view(body)).said == SAID


def test_nothing_was_said_before_first_words():
    assert read_turn(make_view({"messages": [{"role": "user", "content": "yes"}]})).said == ""
