"""A line that asks for a tier: whose text it is in, what it asks for, and what is left."""

import pytest

from router.contract.words import Tier
from router.sessions.clients import BY_NAME
from router.sessions.tier_line import (
    ONE_TEXT,
    begin_of_words,
    may_have_line,
    own_texts,
    read_line,
    say_tier,
    texts_of,
    without_lines,
)

CLAUDE, QWEN, OPENCODE, CLINE, AIDER, UNKNOWN = (
    BY_NAME[name] for name in ("claude-code", "qwen-code", "opencode", "cline", "aider", "unknown")
)
REMINDER = "<system-reminder>x</system-reminder>"
INTERRUPT = "[Request interrupted by user for tool use]"
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "x"}


@pytest.mark.parametrize(
    ("client", "text", "word", "rest", "is_alone"),
    [
        (UNKNOWN, "tier: fast\nfix", "fast", "fix", False),
        (UNKNOWN, "TIER :Deep", "deep", "", True),
        (UNKNOWN, "tier: auto \n\n \n", "auto", "", True),
        (UNKNOWN, "tier: quick", "quick", "", True),
        (UNKNOWN, "<system-reminder>x</system-reminder>\ntier: fast", "fast", "<system-reminder>x</system-reminder>\n", True),
        (CLINE, "<task>\ntier: fast\nfix\n</task>", "fast", "<task>\nfix\n</task>", False),
        (CLINE, "<task>\ntier: fast\n</task>", "fast", "", True),
        (OPENCODE, '"tier: fast\nfix"', "fast", '"fix"', False),
        (OPENCODE, '"tier: fast"', "fast", "", True),
        (OPENCODE, "tier: fast\nfix", "fast", "fix", False),
        (
            AIDER,
            "tier: fast\n\nTo suggest changes to a file you MUST x",
            "fast",
            "To suggest changes to a file you MUST x",
            True,
        ),
    ],
)
def test_a_line_is_found_where_a_client_puts_the_words(client, text, word, rest, is_alone):
    line = read_line(text, client)

    assert (line.word, line.rest) == (word, rest)
    assert line.is_alone is is_alone
    assert may_have_line(text)


@pytest.mark.parametrize(
    ("client", "text"),
    [
        (UNKNOWN, "tier: fast please"),
        (UNKNOWN, f"tier: {'x' * 60}"),
        (UNKNOWN, '"tier: fast"'),
        (UNKNOWN, "<task>\ntier: fast\n</task>"),
        (CLINE, "tier: fast\nfix"),
        (OPENCODE, '"tier: fast'),
        (UNKNOWN, ""),
    ],
)
def test_what_only_looks_like_one_is_none(client, text):
    assert read_line(text, client) is None


def test_a_million_blanks_take_no_time():
    assert read_line(" " * 1_000_000 + "tier: fast", UNKNOWN).word == "fast"
    assert read_line("tier:" + " " * 1_000_000 + "x y", UNKNOWN) is None


def test_a_message_without_its_lines_keeps_everything_else():
    image = {"type": "image", "source": {}}
    parts = [{"type": "text", "text": "notes"}, {"type": "text", "text": "tier: fast", "cache_control": {}}, image]
    lines = {1: read_line("tier: fast", UNKNOWN)}

    assert without_lines({"role": "user", "content": parts}, lines, filler="")["content"] == [parts[0], image]
    assert without_lines({"role": "user", "content": parts}, lines, filler="continue")["content"][1] == {
        "type": "text", "text": "continue", "cache_control": {},
    }  # fmt: skip
    assert without_lines({"role": "user", "content": "tier: fast"}, {ONE_TEXT: lines[1]}, filler="") is None


def test_a_line_is_known_again_and_told_from_others():
    line = read_line("tier: fast\nfix", UNKNOWN)

    assert line.mark(1) == read_line("Tier:FAST\nfix", UNKNOWN).mark(1)
    assert (
        len(
            {
                line.mark(1),
                line.mark(2),
                read_line("tier: deep\nfix", UNKNOWN).mark(1),
                read_line("tier: fast\nx", UNKNOWN).mark(1),
            }
        )
        == 4
    )


def test_the_sentence_names_the_tier():
    assert say_tier(Tier.FAST) == "This session is set to fast."
    assert say_tier(None) == "This session is set to auto."


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
    assert texts_of(user("a", RESULT, "b")) == ["a", "b"]
    assert texts_of({"role": "user", "content": "a"}) == ["a"]
    assert texts_of({"role": "assistant", "content": "a"}) == []


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
