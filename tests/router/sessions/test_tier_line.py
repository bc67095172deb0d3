"""Lines that ask for a tier: whose they are, what is one, which turn they are for, and when the router answers."""

import pytest

from router.contract.errors import UnknownOverride
from router.contract.exchange import Arrival
from router.contract.signals import TierLine
from router.contract.words import Dialect, Operation, Tier
from router.dialects.requests import read_request
from router.sessions.clients import BY_NAME
from router.sessions.tier_line import begin_of_words, own_text, read_line
from router.sessions.turns import read_turn
from tests.tools.values import make_view

AS_CLAUDE = {"user-agent": "claude-cli/2.1.325"}
AS_CLINE = {"user-agent": "Cline/2.18.0"}
AS_OPENCODE = {"user-agent": "opencode/1.18.18"}
CLAUDE, QWEN, OPENCODE, CLINE, AIDER, UNKNOWN = (
    BY_NAME[name] for name in ("claude-code", "qwen-code", "opencode", "cline", "aider", "unknown")
)
REMINDER = "<system-reminder>x</system-reminder>"
INTERRUPT = "[Request interrupted by user for tool use]"
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def user(*parts) -> dict:
    """A message of the user's: of one text, or of parts."""
    if len(parts) == 1 and isinstance(parts[0], str):
        return {"role": "user", "content": parts[0]}
    return {"role": "user", "content": [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]}


def said(text: str) -> dict:
    return {"role": "assistant", "content": text}


def heed(*messages: dict, headers: dict | None = None, dialect: Dialect = Dialect.CHAT, **body) -> TierLine | None:
    return read_turn(make_view({"max_tokens": 9, "messages": list(messages), **body}, dialect, headers)).line


def calls(*names: str) -> list[dict]:
    """A tool loop in the words of chat completions."""
    steps = []
    for name in names:
        call = {"id": name, "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        steps += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": name, "content": "ok"},
        ]
    return steps


@pytest.mark.parametrize(
    ("text", "tier"),
    [
        ("tier: fast\nfix it", Tier.FAST),
        ("tier: deep\r\n\r\nfix it", Tier.DEEP),
        ("tier: auto\nfix it", None),
        ("Tier: Fast\nfix it", Tier.FAST),
        ("TIER:DEEP\nfix it", Tier.DEEP),
        ("tier :  fast \t\nfix it", Tier.FAST),
        (" \n\n  tier: fast\n   \n  fix it", Tier.FAST),
        ("tier: fast\rfix it", Tier.FAST),
    ],
)
def test_a_whole_first_line_with_nothing_but_the_tier_asks_for_it(text, tier):
    assert heed(user(text)) == TierLine(tier)


@pytest.mark.parametrize(
    "text",
    [
        "fix it\ntier: deep",
        "tier: deep please",
        "tier: deep learning?",
        "tier: fast?",
        "tier: quick\nname: x",
        "tier:\nfast",
        "tier fast",
        "> tier: deep\nx",
        "`tier: deep`\nx",
        '"tier: deep"\nx',
        "frontier: deep\nx",
    ],
)
def test_anything_else_is_ordinary_text(text):
    assert heed(user(text)) is None


def test_a_line_counts_for_each_call_of_its_turn_and_no_longer():
    typed = (user("a"), said("b"), user("tier: deep\nfix it"))

    assert heed(*typed) == heed(*typed, *calls("1", "2")) == TierLine(Tier.DEEP)
    assert heed(*typed, *calls("1"), said("done"), user("go on")) is None
    assert heed(*typed, said("done"), user("tier: fast\nnow the docs")) == TierLine(Tier.FAST)


def test_a_message_of_nothing_else_is_answered_here_and_counts_for_the_next_turn():
    alone = (user("a"), said("b"), user(" Tier:FAST \n\n"))
    following = (*alone, said("Your next message goes to fast."), user("fix it"))

    assert heed(*alone) == TierLine(Tier.FAST, is_answered_here=True)
    assert heed(user(REMINDER, "tier: fast")).is_answered_here
    assert heed(*following) == heed(*following, *calls("1")) == TierLine(Tier.FAST)
    assert heed(*following, said("done"), user("and the docs")) is None
    assert heed(*following[:-1], user("tier: deep\nfix it")) == TierLine(Tier.DEEP)
    assert heed(*following[:-1], user("tier: auto")) == TierLine(None, is_answered_here=True)


@pytest.mark.parametrize("word", ["quick", "deep.", "Schnell"])
def test_an_unknown_tier_is_refused_where_the_newest_message_is_that_line_alone(word):
    with pytest.raises(UnknownOverride, match="Known: fast, deep, auto"):
        heed(user("hello"), said("hi"), user(f"tier: {word}\n"))


@pytest.mark.parametrize(
    "messages",
    [
        (user("tier: quick"), said("hi"), user("go on")),
        (user("tier: quick"), *calls("1")),
        (user("tier: quick\nname: x"),),
        (user("tier: quick", IMAGE),),
    ],
)
def test_an_unknown_tier_anywhere_else_is_ordinary_text(messages):
    assert heed(*messages) is None


def test_a_tools_output_asks_for_nothing():
    result = user({**RESULT, "content": "tier: deep\nx"})
    output = {"type": "function_call_output", "call_id": "c", "output": "tier: deep\nx"}

    for headers in ({}, AS_CLAUDE):
        assert heed(result, dialect=Dialect.MESSAGES, headers=headers) is None
        assert heed(user(RESULT, "tier: deep\nx"), dialect=Dialect.MESSAGES, headers=headers) is None
    assert read_turn(make_view({"input": [output]}, Dialect.RESPONSES)).line is None
    assert heed({"role": "tool", "tool_call_id": "c", "content": "tier: deep\nx"}) is None


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
def test_what_others_say_asks_for_nothing(role):
    assert heed({"role": role, "content": "tier: deep\nx"}, user("hello")) is None


def test_of_a_client_whose_last_block_is_the_persons_only_that_one_is_read(subtests):
    for parts, tier in [
        (("tier: fast\n# notes.md", "what is 2+2"), None),
        (("# notes.md", "tier: fast\nwhat is 2+2"), Tier.FAST),
        ((REMINDER, "tier: fast\nfix it", REMINDER), Tier.FAST),
        ((INTERRUPT, "tier: fast\nrefactor all"), Tier.FAST),
        ((REMINDER, "tier: deep\nfix the typo", INTERRUPT, "tier: fast\nfix it"), Tier.FAST),
        (("tier: deep\nfix the typo", INTERRUPT, "do it"), None),
    ]:
        with subtests.test(parts=parts):
            line = heed(user(*parts), headers=AS_CLAUDE, dialect=Dialect.MESSAGES)
            assert line == (None if tier is None else TierLine(tier))


def test_a_reminder_that_quotes_its_own_end_hides_no_line():
    quoted = "<system-reminder>\na file:\n</system-reminder>\ntier: deep\nmore\n</system-reminder>"

    for headers in ({}, AS_CLAUDE):
        assert heed(user(quoted), headers=headers) is None
        assert heed(user("hello", quoted), headers=headers) is None


def test_a_line_after_an_interrupted_call_counts():
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]}
    tokens = {"role": "system", "content": "<total_tokens>9</total_tokens>"}

    line = heed(
        user("begin"), use, user(RESULT, INTERRUPT, "tier: auto\ngo on"), tokens, headers=AS_CLAUDE, dialect=Dialect.MESSAGES
    )

    assert line == TierLine(None)


@pytest.mark.parametrize("headers", [{}, {"user-agent": "codex_cli_rs/0.166"}], ids=["unknown", "codex"])
def test_of_several_texts_that_may_all_be_context_none_is_read(headers):
    assert heed(user("tier: fast\n# notes.md", "what is it"), headers=headers) is None
    assert heed(user("# notes.md", "tier: fast\nwhat is it"), headers=headers) is None


def test_a_single_text_beside_reminders_and_images_is_the_persons():
    assert heed(user(REMINDER, "tier: fast\nwhat is this?", IMAGE)) == TierLine(Tier.FAST)


def test_with_opencode_the_first_block_is_the_persons_and_what_is_attached_is_not():
    read = 'Called the Read tool with the following input: {"filePath":"/a.yaml"}'

    typed = heed(user('"tier: fast\nlook at this"', read, "tier: deep\nname: x"), headers=AS_OPENCODE)

    assert typed == TierLine(Tier.FAST)
    assert heed(user(read, "tier: deep\nname: x", "look at this"), headers=AS_OPENCODE) is None


def test_with_cline_the_task_is_the_persons_and_a_result_is_not():
    task = user("<task>\ntier: deep\nfix it\n</task>", "<environment_details>x</environment_details>")

    assert heed(task, headers=AS_CLINE) == TierLine(Tier.DEEP)
    assert heed(user("[read_file for 'a.yaml'] Result:", "tier: deep\nname: x"), headers=AS_CLINE) is None


def test_an_editors_context_in_the_same_text_is_not_the_persons():
    mark = "## My request for Codex:"
    typed = make_view({"input": f"# Context\nopen: a.py\n{mark}\ntier: fast\nfix it"}, Dialect.RESPONSES)
    context = make_view({"input": f"tier: fast\n# Context\n{mark}\nfix it"}, Dialect.RESPONSES)

    assert read_turn(typed).line == TierLine(Tier.FAST)
    assert read_turn(context).line is None


def test_a_model_that_begins_a_subagents_task_with_a_line_asks_for_nothing():
    headers = {**AS_CLAUDE, "x-claude-code-agent-id": "a1"}

    assert heed(user("tier: deep\nlist the files"), headers=headers, dialect=Dialect.MESSAGES) is None


def test_a_side_request_about_a_line_is_neither_answered_here_nor_refused():
    title = {"role": "system", "content": "You are a title generator. You output ONLY a thread title."}

    for text in ("tier: fast", "tier: quick", "tier: fast\nfix it"):
        assert heed(title, user(text)) is None


def test_a_line_that_is_written_with_escapes_counts_too():
    raw = b'{"model": "auto", "messages": [{"role": "user", "content": "\\u0074ier: deep\\nfix it"}]}'

    assert read_turn(read_request(Arrival("r", Dialect.CHAT, Operation.CREATE, {}, raw))).line == TierLine(Tier.DEEP)


def test_next_to_a_picture_the_line_is_not_alone():
    assert heed(user("tier: deep", IMAGE)) == TierLine(Tier.DEEP)
    assert heed(user("tier: deep", IMAGE), said("A cat."), user("go on")) is None


def test_a_trailing_system_message_does_not_hide_that_the_line_is_alone():
    environment = {"role": "system", "content": "# Environment"}

    assert heed(user("tier: fast"), environment, headers=AS_CLAUDE, dialect=Dialect.MESSAGES).is_answered_here


@pytest.mark.parametrize(
    ("dialect", "demand"),
    [
        (Dialect.CHAT, {"tool_choice": "required"}),
        (Dialect.CHAT, {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        (Dialect.CHAT, {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}),
        (Dialect.CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}}),
        (Dialect.CHAT, {"response_format": {"type": "json_object"}}),
        (Dialect.MESSAGES, {"tool_choice": {"type": "any"}}),
        (Dialect.MESSAGES, {"output_config": {"format": {"type": "json_schema", "schema": {}}}}),
    ],
)
def test_a_request_that_demands_a_call_or_a_schema_is_passed_on(dialect, demand):
    assert heed(user("tier: fast"), dialect=dialect, **demand) == TierLine(Tier.FAST)


@pytest.mark.parametrize("choice", ["auto", "none", {"type": "auto"}, {"type": "allowed_tools", "mode": "auto", "tools": []}])
def test_a_free_choice_of_tools_demands_nothing(choice):
    assert heed(user("tier: fast"), tool_choice=choice).is_answered_here


@pytest.mark.parametrize(
    ("client", "text", "word", "is_alone"),
    [
        (UNKNOWN, "tier: quick", "quick", True),
        (UNKNOWN, f"{REMINDER}\ntier: fast", "fast", True),
        (CLINE, "<task>\ntier: fast\nfix\n</task>", "fast", False),
        (CLINE, "<task>\ntier: fast\n</task>", "fast", True),
        (OPENCODE, '"tier: fast\nfix"', "fast", False),
        (OPENCODE, '"tier: fast"', "fast", True),
        (OPENCODE, "tier: fast\nfix", "fast", False),
        (AIDER, "tier: fast\n\nTo suggest changes to a file you MUST x", "fast", True),
    ],
)
def test_a_line_is_found_where_a_client_puts_the_words(client, text, word, is_alone):
    assert read_line(text, client) == (word, is_alone)


@pytest.mark.parametrize(
    ("client", "text"),
    [
        (UNKNOWN, f"tier: {'x' * 60}"),
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
        ("<ide_selection>tier: deep</ide_selection>\nfix it", "fix it"),
        ("<b>bold</b>", "<b>bold</b>"),
    ],
)
def test_words_begin_after_what_a_client_put_before_them(text, words):
    assert text[begin_of_words(text) :] == words


def test_a_text_counts_only_where_it_cannot_be_anything_but_the_persons(subtests):
    command = "<command-name>/tidy</command-name><command-args>x</command-args>"
    output = "<local-command-stdout>ok</local-command-stdout>"
    for client, message, text in [
        (CLAUDE, user("notes", "typed"), "typed"),
        (QWEN, user(REMINDER, "typed"), "typed"),
        (CLAUDE, user("notes", "typed", REMINDER), "typed"),
        (CLAUDE, user("typed", INTERRUPT, "then"), "then"),
        (CLAUDE, user("typed", INTERRUPT), "typed"),
        (CLAUDE, user(RESULT, "beside"), None),
        (CLAUDE, user(RESULT, "beside", INTERRUPT, "then"), "then"),
        (CLAUDE, user(RESULT, INTERRUPT), None),
        (CLAUDE, user(command, "tier: deep\nRewrite all."), None),
        (CLAUDE, user(command, "Rewrite all.", INTERRUPT, "fix it"), "fix it"),
        (CLAUDE, user(command, output, "fix it"), "fix it"),
        (CLAUDE, user("<command-name>/model</command-name>", "fix it"), "fix it"),
        (OPENCODE, user("typed", "attached"), "typed"),
        (OPENCODE, user(REMINDER, "attached"), None),
        (UNKNOWN, user("typed"), "typed"),
        (UNKNOWN, user(REMINDER, "typed", {"type": "image_url"}), "typed"),
        (UNKNOWN, user("one", "two"), None),
        (UNKNOWN, user(RESULT, "beside"), None),
        (CLINE, user("<task>\nfix\n</task>", "<environment_details>x</environment_details>"), "<task>\nfix\n</task>"),
        (CLINE, user("[read_file] Result:\nx"), None),
        (AIDER, user("I have *added these files to the chat*\ntier: deep"), None),
        (UNKNOWN, {"role": "assistant", "content": "said"}, None),
        (UNKNOWN, "no message", None),
        (UNKNOWN, {"role": "user", "content": None}, None),
    ]:
        with subtests.test(client=client.name, message=message):
            assert own_text(message, client) == text
