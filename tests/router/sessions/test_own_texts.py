"""Whose a text is: the person's, or something that a client or a program put among their messages."""

import pytest

from router.sessions.clients import BY_NAME
from router.sessions.own_texts import ONE_TEXT, begin_of_words, may_hold_own_text, own_texts

CLAUDE, QWEN, OPENCODE, CLINE, AIDER, UNKNOWN = (
    BY_NAME[name] for name in ("claude-code", "qwen-code", "opencode", "cline", "aider", "unknown")
)
REMINDER = "<system-reminder>x</system-reminder>"
INTERRUPT = "[Request interrupted by user for tool use]"
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "x"}


def user(*parts) -> dict:
    return {"role": "user", "content": [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fix it", "fix it"),
        ("  \n fix it", "fix it"),
        (f"{REMINDER}\nfix it", "fix it"),
        (f"{REMINDER}{REMINDER} fix it", "fix it"),
        (REMINDER, ""),
        ("<system-reminder>never closed, fix it", ""),
        ("<system-reminder>a</system-reminder>\nb</system-reminder> c", "c"),
        ("# Context\n## My request for Codex:\nfix it", "fix it"),
        ("<b>bold</b>", "<b>bold</b>"),
    ],
)
def test_words_begin_after_what_a_client_put_before_them(text, words):
    assert text[begin_of_words(text) :] == words


def test_a_text_counts_only_where_it_cannot_be_anything_but_the_persons(subtests):
    for client, message, indexes in [
        (CLAUDE, user("notes", "typed"), [1]),
        (QWEN, user(REMINDER, "typed"), [1]),
        (CLAUDE, user("notes", "typed", REMINDER), [1]),
        (CLAUDE, user("typed", INTERRUPT, "then"), [0, 2]),
        (CLAUDE, user(RESULT, "beside"), []),
        (CLAUDE, user(RESULT, "beside", INTERRUPT, "then"), [3]),
        (CLAUDE, user(RESULT, INTERRUPT), []),
        (OPENCODE, user("typed", "attached"), [0]),
        (OPENCODE, user(REMINDER, "attached"), []),
        (UNKNOWN, user("typed"), [0]),
        (UNKNOWN, user(REMINDER, "typed", {"type": "image_url"}), [1]),
        (UNKNOWN, user("one", "two"), []),
        (UNKNOWN, user(RESULT, "beside"), []),
        (CLINE, user("<task>\nfix\n</task>", "<environment_details>x</environment_details>"), [0]),
        (CLINE, user("[read_file] Result:\nx"), []),
        (AIDER, {"role": "user", "content": "fix it"}, [ONE_TEXT]),
        (AIDER, {"role": "user", "content": "I have *added these files to the chat*\ntier: deep"}, []),
        (UNKNOWN, {"role": "assistant", "content": "said"}, []),
        (UNKNOWN, "no message", []),
        (UNKNOWN, {"role": "user", "content": None}, []),
    ]:
        with subtests.test(client=client, message=message, indexes=indexes):
            assert [index for index, _ in own_texts(message, client)] == indexes


def test_every_text_of_a_user_may_be_somebodys_words_until_the_client_is_known():
    assert may_hold_own_text(user("a", RESULT, "b")) == ["a", "b"]
    assert may_hold_own_text({"role": "user", "content": "a"}) == ["a"]
    assert may_hold_own_text({"role": "assistant", "content": "a"}) == []


def test_what_follows_a_command_is_the_text_that_it_expands_to():
    command = "<command-name>/tidy</command-name><command-args>x</command-args>"
    output = "<local-command-stdout>ok</local-command-stdout>"

    assert own_texts(user(command, "tier: deep\nRewrite all."), CLAUDE) == []
    assert own_texts(user(command, "Rewrite all.", INTERRUPT, "fix it"), CLAUDE) == [(3, "fix it")]
    assert own_texts(user(command, output, "fix it"), CLAUDE) == [(2, "fix it")]
    assert own_texts(user("<command-name>/model</command-name>", "fix it"), CLAUDE) == [(1, "fix it")]


def test_words_begin_after_what_an_editor_put_before_them():
    text = "<ide_selection>tier: deep</ide_selection>\nfix it"

    assert text[begin_of_words(text) :] == "fix it"
