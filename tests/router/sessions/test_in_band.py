"""Lines that ask for a tier: whose they are, what is one, and what is left of a request without them."""

import json

import pytest

from router.contract.errors import UnknownOverride
from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation, Tier
from router.dialects.requests import read_request
from router.sessions.in_band import apply_tier_lines
from tests.tools.values import make_view

CLAUDE = {"user-agent": "claude-cli/2.1.325"}
CLINE = {"user-agent": "Cline/2.18.0"}
OPENCODE = {"user-agent": "opencode/1.18.18"}
REMINDER = "<system-reminder>\nAs you answer, use this context\n</system-reminder>"
INTERRUPT = "[Request interrupted by user]"
SENTENCE = "This session is set to fast."


def blocks(*texts: str) -> list[dict]:
    return [{"type": "text", "text": text} for text in texts]


def user(content) -> dict:
    return {"role": "user", "content": content}


def said(text: str) -> dict:
    return {"role": "assistant", "content": text}


def heed(*messages: dict, headers: dict | None = None, dialect: Dialect = Dialect.CHAT, **body):
    return apply_tier_lines(make_view({"max_tokens": 9, "messages": list(messages), **body}, dialect, headers))


def contents(view) -> list:
    return [message["content"] for message in view.body["messages"]]


def texts(view, place: int = -1) -> list[str]:
    return [part["text"] for part in view.body["messages"][place]["content"] if "text" in part]


@pytest.mark.parametrize(
    ("text", "tier", "rest"),
    [
        ("tier: fast\nfix it", Tier.FAST, "fix it"),
        ("tier: deep\r\n\r\nfix it", Tier.DEEP, "fix it"),
        ("tier: auto\nfix it", None, "fix it"),
        ("Tier: Fast\nfix it", Tier.FAST, "fix it"),
        ("TIER:DEEP\nfix it", Tier.DEEP, "fix it"),
        ("tier:fast\nfix it", Tier.FAST, "fix it"),
        ("tier :  fast \t\nfix it", Tier.FAST, "fix it"),
        (" \n\n  tier: fast\n   \n  fix it", Tier.FAST, "  fix it"),
        ("tier: fast\rfix it", Tier.FAST, "fix it"),
    ],
)
def test_a_whole_first_line_with_nothing_but_the_tier_is_a_wish_and_is_taken_out(text, tier, rest):
    view = heed(user(text))

    assert view.overrides.line.tier is tier
    assert contents(view) == [rest]
    assert json.loads(view.raw) == view.body


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
        "tier: fast deep\nx",
    ],
)
def test_anything_else_is_ordinary_text(text):
    view = heed(user(text))

    assert view.overrides.line is None
    assert contents(view) == [text]


@pytest.mark.parametrize("word", ["quick", "turbo", "deep.", "Schnell"])
def test_an_unknown_tier_is_refused_where_the_newest_message_is_that_line_alone(word):
    with pytest.raises(UnknownOverride, match="Known: fast, deep, auto"):
        heed(user("hello"), said("hi"), user(f"tier: {word}\n"))


@pytest.mark.parametrize(
    "messages",
    [
        (user("tier: quick"), said("hi"), user("go on")),
        (user("tier: quick\nname: x"),),
        (user("tier: premium\n\nwhat does this file do?"),),
    ],
)
def test_an_unknown_tier_anywhere_else_is_ordinary_text(messages):
    view = heed(*messages)

    assert view.overrides.line is None
    assert contents(view) == [message["content"] for message in messages]


def test_a_tools_output_asks_for_nothing():
    result = user([{"type": "tool_result", "tool_use_id": "t", "content": "tier: deep\nx"}])
    beside = user([{"type": "tool_result", "tool_use_id": "t", "content": "x"}, *blocks("tier: deep\nx")])
    output = {"type": "function_call_output", "call_id": "c", "output": "tier: deep\nx"}

    for headers in ({}, CLAUDE):
        assert heed(result, dialect=Dialect.MESSAGES, headers=headers).overrides.line is None
        assert heed(beside, dialect=Dialect.MESSAGES, headers=headers).overrides.line is None
    assert apply_tier_lines(make_view({"input": [output]}, Dialect.RESPONSES)).overrides.line is None
    assert heed({"role": "tool", "tool_call_id": "c", "content": "tier: deep\nx"}).overrides.line is None


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
def test_what_others_say_asks_for_nothing(role):
    assert heed({"role": role, "content": "tier: deep\nx"}, user("hello")).overrides.line is None


def test_of_a_client_whose_last_block_is_the_persons_only_that_one_is_read():
    context = heed(user(blocks("tier: fast\n# notes.md", "what is 2+2")), headers=CLAUDE, dialect=Dialect.MESSAGES)
    typed = heed(user(blocks("# notes.md", "tier: fast\nwhat is 2+2")), headers=CLAUDE, dialect=Dialect.MESSAGES)

    assert context.overrides.line is None
    assert texts(context) == ["tier: fast\n# notes.md", "what is 2+2"]
    assert typed.overrides.line.tier is Tier.FAST
    assert texts(typed) == ["# notes.md", "what is 2+2"]


def test_reminders_around_the_persons_block_are_in_nobodys_way():
    view = heed(user(blocks(REMINDER, "tier: fast\nfix it", REMINDER)), headers=CLAUDE, dialect=Dialect.MESSAGES)

    assert view.overrides.line.tier is Tier.FAST
    assert texts(view) == [REMINDER, "fix it", REMINDER]


def test_a_reminder_that_quotes_its_own_end_hides_no_line():
    quoted = "<system-reminder>\na file:\n</system-reminder>\ntier: deep\nmore\n</system-reminder>"

    for headers in ({}, CLAUDE):
        assert heed(user(quoted), headers=headers).overrides.line is None
        assert heed(user(blocks("hello", quoted)), headers=headers).overrides.line is None


@pytest.mark.parametrize("interrupt", [INTERRUPT, "[Request interrupted by user for tool use]"])
def test_a_line_after_an_interrupt_counts(interrupt):
    result = {"type": "tool_result", "tool_use_id": "t", "content": "rejected"}
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]}
    alone = heed(user(blocks(interrupt, "tier: fast\nrefactor all")), headers=CLAUDE, dialect=Dialect.MESSAGES)
    after_call = heed(
        user("begin"),
        use,
        user([result, *blocks(interrupt, "tier: auto\ngo on")]),
        {"role": "system", "content": "<total_tokens>9</total_tokens>"},
        headers=CLAUDE,
        dialect=Dialect.MESSAGES,
    )

    assert alone.overrides.line.tier is Tier.FAST
    assert texts(alone) == [interrupt, "refactor all"]
    assert after_call.overrides.line.tier is None
    assert after_call.overrides.line.is_newest
    assert texts(after_call, 2) == [interrupt, "go on"]


def test_a_line_of_what_was_interrupted_goes_too_and_the_later_one_counts():
    view = heed(
        user(blocks(REMINDER, "tier: deep\nfix the typo", INTERRUPT, "tier: fast\nfix it")),
        headers=CLAUDE,
        dialect=Dialect.MESSAGES,
    )

    assert view.overrides.line.tier is Tier.FAST
    assert texts(view) == [REMINDER, "fix the typo", INTERRUPT, "fix it"]


@pytest.mark.parametrize("headers", [{}, {"user-agent": "codex_cli_rs/0.166"}], ids=["unknown", "codex"])
def test_of_several_texts_that_may_all_be_context_none_is_read(headers):
    for given in (("tier: fast\n# notes.md", "what is it"), ("# notes.md", "tier: fast\nwhat is it")):
        view = heed(user(blocks(*given)), headers=headers)

        assert view.overrides.line is None
        assert texts(view) == list(given)


def test_a_single_text_beside_reminders_and_images_is_the_persons():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    view = heed(user([*blocks(REMINDER, "tier: fast\nwhat is this?"), image]))

    assert view.overrides.line.tier is Tier.FAST
    assert texts(view) == [REMINDER, "what is this?"]


def test_with_opencode_the_first_block_is_the_persons_and_what_is_attached_is_not():
    read = 'Called the Read tool with the following input: {"filePath":"/a.yaml"}'
    typed = heed(user(blocks('"tier: fast\nlook at this"', read, "tier: deep\nname: x")), headers=OPENCODE)
    attached = heed(user(blocks(read, "tier: deep\nname: x", "look at this")), headers=OPENCODE)

    assert typed.overrides.line.tier is Tier.FAST
    assert texts(typed) == ['"look at this"', read, "tier: deep\nname: x"]
    assert attached.overrides.line is None


def test_with_cline_the_task_is_the_persons_and_a_result_is_not():
    task = heed(
        user(blocks("<task>\ntier: deep\nfix it\n</task>", "<environment_details>x</environment_details>")), headers=CLINE
    )
    result = heed(user(blocks("[read_file for 'a.yaml'] Result:", "tier: deep\nname: x")), headers=CLINE)

    assert task.overrides.line.tier is Tier.DEEP
    assert texts(task)[0] == "<task>\nfix it\n</task>"
    assert result.overrides.line is None


def test_an_editors_context_in_the_same_text_is_not_the_persons():
    mark = "## My request for Codex:"
    typed = apply_tier_lines(make_view({"input": f"# Context\nopen: a.py\n{mark}\ntier: fast\nfix it"}, Dialect.RESPONSES))
    context = apply_tier_lines(make_view({"input": f"tier: fast\n# Context\n{mark}\nfix it"}, Dialect.RESPONSES))

    assert typed.overrides.line.tier is Tier.FAST
    assert typed.body["input"] == f"# Context\nopen: a.py\n{mark}\nfix it"
    assert context.overrides.line is None


def test_a_model_that_begins_a_subagents_task_with_a_line_asks_for_nothing():
    headers = {**CLAUDE, "x-claude-code-agent-id": "a1"}

    view = heed(user("tier: deep\nlist the files"), headers=headers, dialect=Dialect.MESSAGES)

    assert view.overrides.line is None
    assert contents(view) == ["tier: deep\nlist the files"]


def test_a_title_request_loses_the_line_and_asks_for_nothing():
    title = {"role": "system", "content": "You are a title generator. You output ONLY a thread title."}

    view = heed(title, user("Generate a title for this conversation:\n"), user("tier: fast\nfix it"))

    assert view.overrides.line is None
    assert contents(view)[-1] == "fix it"


def test_a_side_request_about_a_line_is_neither_answered_here_nor_refused():
    title = {"role": "system", "content": "You are a title generator."}

    for text in ("tier: fast", "tier: quick"):
        assert heed(title, user(text)).overrides.line is None


def test_every_line_goes_however_many_there_are():
    view = heed(*[user(f"tier: fast\nsay {number}") for number in range(70)], user("tier: deep\nsay it"))

    assert (view.overrides.line.tier, view.overrides.line.index) == (Tier.DEEP, 70)
    assert contents(view) == [*[f"say {number}" for number in range(70)], "say it"]


def test_a_line_that_is_written_with_escapes_counts_too():
    raw = b'{"model": "auto", "messages": [{"role": "user", "content": "\\u0074ier: deep\\nfix it"}]}'

    view = apply_tier_lines(read_request(Arrival("r", Dialect.CHAT, Operation.CREATE, {}, raw)))

    assert view.overrides.line.tier is Tier.DEEP
    assert contents(view) == ["fix it"]


def test_a_message_that_is_only_the_line_is_to_be_answered_here():
    for messages in (
        (user("tier: fast"),),
        (user("a"), said("b"), user(" Tier:FAST \n\n")),
        (user(blocks(REMINDER, "tier: fast")),),
    ):
        assert heed(*messages).overrides.line.is_alone
    assert not heed(user("tier: fast"), said("b"), user("a")).overrides.line.is_alone
    assert not heed(user("tier: fast\nx")).overrides.line.is_alone


def test_next_to_a_picture_the_line_is_not_alone_and_goes_in_the_same_way_ever_after():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    shown = user([*blocks("tier: deep"), image])

    newest, later = heed(shown), heed(shown, said("A cat."), user("go on"))

    assert (newest.overrides.line.tier, newest.overrides.line.is_alone) == (Tier.DEEP, False)
    assert contents(newest)[0] == contents(later)[0] == [image]
    assert heed(user([*blocks("tier: quick"), image])).overrides.line is None


def test_what_was_interrupted_and_only_a_line_goes_in_the_same_way_ever_after():
    message = user(blocks("tier: deep", INTERRUPT, "do it"))

    for more in ((), (said("done"), user("go on"))):
        view = heed(message, *more, headers=CLAUDE, dialect=Dialect.MESSAGES)
        assert texts(view, 0) == [INTERRUPT, "do it"]
        assert view.overrides.line.tier is Tier.DEEP


def test_a_trailing_system_message_does_not_hide_that_the_line_is_alone():
    view = heed(user("tier: fast"), {"role": "system", "content": "# Environment"}, headers=CLAUDE, dialect=Dialect.MESSAGES)

    assert view.overrides.line.is_alone


@pytest.mark.parametrize(
    ("dialect", "demand"),
    [
        (Dialect.CHAT, {"tool_choice": "required"}),
        (Dialect.CHAT, {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        (Dialect.CHAT, {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}),
        (Dialect.CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}}),
        (Dialect.CHAT, {"response_format": {"type": "json_object"}}),
        (Dialect.MESSAGES, {"tool_choice": {"type": "any"}}),
        (Dialect.MESSAGES, {"tool_choice": {"type": "tool", "name": "f"}}),
        (Dialect.MESSAGES, {"output_config": {"format": {"type": "json_schema", "schema": {}}}}),
    ],
)
def test_a_request_that_demands_a_call_or_a_schema_is_passed_on(dialect, demand):
    view = heed(user("tier: fast"), dialect=dialect, **demand)

    assert (view.overrides.line.tier, view.overrides.line.is_alone) == (Tier.FAST, False)
    assert contents(view) == ["continue"]


@pytest.mark.parametrize("choice", ["auto", "none", {"type": "auto"}, {"type": "allowed_tools", "mode": "auto", "tools": []}])
def test_a_free_choice_of_tools_demands_nothing(choice):
    assert heed(user("tier: fast"), tool_choice=choice).overrides.line.is_alone


def test_an_exchange_with_the_router_is_left_out_and_what_else_is_in_its_messages_stays():
    plain = heed(user("a"), said("b"), user("tier: fast"), said(SENTENCE), user("c"))
    first = heed(
        user(blocks(REMINDER, "tier: fast")),
        {"role": "system", "content": "# Environment"},
        {"role": "assistant", "content": blocks(SENTENCE)},
        user("c"),
        headers=CLAUDE,
        dialect=Dialect.MESSAGES,
    )

    assert contents(plain) == ["a", "b", "c"]
    assert (plain.overrides.line.tier, plain.overrides.line.index) == (Tier.FAST, 1)
    assert contents(first) == [blocks(REMINDER), "# Environment", "c"]
    assert first.overrides.line.index == -1


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        ((user("tier: fast"), said("Here is more."), user("c")), ["continue", "Here is more.", "c"]),
        ((user("tier: deep"), said(SENTENCE), user("c")), ["continue", SENTENCE, "c"]),
        ((user("tier: fast"), user("c")), ["c"]),
    ],
    ids=["answered by a target", "a sentence for another tier", "answered by nobody"],
)
def test_only_an_exchange_with_a_target_is_repeated_as_it_was_sent(messages, sent):
    assert contents(heed(*messages)) == sent


def test_a_conversation_is_never_left_empty():
    assert len(contents(heed(user("tier: fast"), said(SENTENCE)))) == 2


def test_the_beginning_that_goes_to_a_target_is_the_same_in_every_later_request():
    said_so_far = [user("tier: deep\na"), said("b"), user("tier: fast"), said(SENTENCE), user("c")]
    later = [*said_so_far, said("d"), user("Tier: AUTO"), said("This session is set to auto."), user("tier: deep\ne")]

    assert contents(heed(*later))[:3] == contents(heed(*said_so_far)) == ["a", "b", "c"]
