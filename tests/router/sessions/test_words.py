"""What the person typed: without what their client wrapped around it, and never what nobody typed."""

import pytest

from router.contract.request import Message
from router.sessions.clients import BY_NAME, HARNESS_STARTS, HARNESS_TAGS, PLAN_MARKS
from router.sessions.words import is_planning, opening_words, read_end, words_of
from tests.tools.values import make_view
from tests.tools.work import cost_ratio

UNKNOWN, CLAUDE, CLINE, AIDER = (BY_NAME[name] for name in ("unknown", "claude-code", "cline", "aider"))


def talk(*said: tuple[str, object]):
    return make_view({"messages": [{"role": role, "content": content} for role, content in said]}).conversation


def words(*texts: str, client=UNKNOWN) -> str:
    return words_of(Message("user", texts), client)


@pytest.mark.parametrize("tag", HARNESS_TAGS)
def test_what_stands_in_a_clients_own_tags_nobody_typed(tag):
    assert words(f"<{tag}>\nnoise\n</{tag}>\nfix it") == "fix it"
    assert words(f'fix it <{tag} a="b">noise</{tag}>') == "fix it"
    assert words(f"<{tag}>never closed: fix it") == ""


def test_a_tag_that_is_not_the_clients_is_the_persons():
    assert words("why is <div>this</div> here?") == "why is <div>this</div> here?"


@pytest.mark.parametrize("start", HARNESS_STARTS)
def test_a_text_that_begins_as_a_clients_notice_is_not_the_persons(start):
    assert words(f"  {start} and more") == ""
    assert words(f"see: {start}") != ""


def test_the_words_of_all_blocks_count_except_where_only_the_last_is_the_persons():
    assert words("one", "<system-reminder>x</system-reminder>", "two") == "one\ntwo"
    assert words("a file", "the ask", client=CLAUDE) == "the ask"
    assert words("<system-reminder>x</system-reminder>", client=CLAUDE) == ""
    assert words() == ""


def test_words_in_a_clients_own_wrapper_are_all_that_counts():
    assert words("noise <task>\nfix it\n</task> noise", client=CLINE) == "fix it"
    assert words("<task> never closed", client=CLINE) == "<task> never closed"
    assert words("noise <task>fix it</task>", client=UNKNOWN) == "noise <task>fix it</task>"


def test_format_instructions_after_the_words_are_cut_off():
    assert words("fix it\n\n# File editing rules:\nlong", client=AIDER) == "fix it"


def test_an_editors_context_ends_where_the_request_begins():
    assert words("# Context\nopen files\n## My request for Codex:\nfix it") == "fix it"
    assert words("## My request for Codex: a\n## My request for Codex:\nb") == "b"


def test_of_a_very_long_text_both_ends_are_searched():
    text = words("begin " + "x" * 100_000 + " end")

    assert text.startswith("begin ")
    assert text.endswith(" end")
    assert len(text) == 20_000


def test_a_long_paste_costs_no_more_than_a_page():
    def search(size):
        return lambda: words("a < b " * size)

    assert cost_ratio(search(400_000), search(20_000)) < 8


def test_how_a_message_begins_is_enough_to_know_it_by():
    message = Message("user", ("x" * 50_000,))

    assert len(opening_words(message, UNKNOWN)) == 2_000
    assert opening_words(Message("user", ("short",)), UNKNOWN) == "short"


def test_a_harness_text_is_stripped_whole_before_the_opening_is_taken():
    tagged = f"<system-reminder>{'x' * 5_000}</system-reminder>fix it"

    assert opening_words(Message("user", (tagged,)), UNKNOWN) == "fix it"


def test_the_persons_words_are_the_last_that_were_typed_after_the_last_answer():
    assert read_end(talk(("user", "one"), ("assistant", "ok"), ("user", "two")), UNKNOWN).words == "two"
    assert read_end(talk(("user", "two"), ("system", "note"), ("developer", "note")), UNKNOWN).words == "two"
    assert read_end(talk(("user", "two"), ("user", "<system-reminder>x</system-reminder>")), UNKNOWN).words == "two"
    assert read_end(talk(("user", "one"), ("assistant", "ok")), UNKNOWN).words is None
    assert read_end(talk(("system", "x")), UNKNOWN).words is None


def test_a_tool_result_without_words_is_nobodys_ask():
    result = {"messages": [{"role": "user", "content": "go"}, {"role": "tool", "tool_call_id": "c", "content": "ok"}]}

    assert read_end(make_view(result).conversation, UNKNOWN).words is None


def test_the_persons_words_are_not_looked_for_far_back():
    harness = [("system", "note")] * 8

    assert read_end(talk(("user", "go"), *harness[:7]), UNKNOWN).words == "go"
    assert read_end(talk(("user", "go"), *harness), UNKNOWN).words is None


def test_the_last_user_message_may_be_followed_by_harness_messages_alone():
    assert read_end(talk(("user", "go"), ("system", "x")), UNKNOWN).message.texts == ("go",)
    assert read_end(talk(("user", "go"), ("assistant", "x")), UNKNOWN).message is None
    assert read_end(talk(("system", "x")), UNKNOWN).message is None


@pytest.mark.parametrize("mark", PLAN_MARKS)
def test_plan_mode_is_told_around_the_last_message(mark):
    long = "x" * 50_000

    assert is_planning(talk(("user", "go"), ("system", f"note: {mark} now")))
    assert is_planning(talk(("user", f"{mark} {long}"), ("assistant", "ok")))
    assert is_planning(talk(("user", f"{long} {mark}")))
    assert not is_planning(talk(("user", f"{long} {mark} {long}")))
    assert not is_planning(talk(("user", mark), ("assistant", "ok"), ("user", "go on")))
    assert not is_planning(talk(("user", "make a Plan")))
