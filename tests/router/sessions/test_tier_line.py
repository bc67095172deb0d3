"""One text and its line: what it asks for, and what is left."""

import pytest

from router.contract.words import Tier
from router.sessions.clients import BY_NAME
from router.sessions.own_texts import ONE_TEXT
from router.sessions.tier_line import may_have_line, read_line, say_tier, without_lines

UNKNOWN, CLINE, OPENCODE, AIDER = (BY_NAME[name] for name in ("unknown", "cline", "opencode", "aider"))


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
