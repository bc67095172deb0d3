"""Requests of Anthropic Messages."""

import pytest
from msgspec.structs import replace

from router.contract.errors import BadRequest
from router.contract.request import ToolCall
from router.contract.words import Dialect, Feature, Operation
from router.dialects.messages.request import add_instructions, opaque_keys, read_message, recognise, without_wrapped
from router.dialects.opaque import all_keys, without_foreign
from tests.tools.values import make_view

USER = {"role": "user", "content": "x"}
USE = {"type": "tool_use", "id": "t", "name": "ls", "input": {"path": "."}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "a", "is_error": True}


def read(**body):
    return make_view({"max_tokens": 9, "messages": [USER], **body}, Dialect.MESSAGES)


def test_a_users_message_may_hold_results_and_words():
    called = read_message({"role": "assistant", "content": [{"type": "text", "text": "I look."}, USE]})
    mixed = read_message({"role": "user", "content": [RESULT, {"type": "text", "text": "go on"}]})

    assert (called.texts, called.calls) == (("I look.",), (ToolCall("t", "ls", {"path": "."}),))
    assert (mixed.texts, mixed.results[0].text, mixed.results[0].is_error) == (("go on",), "a", True)


@pytest.mark.parametrize(
    ("item", "seen"),
    [
        (USER, ("user", ("x",), (), ())),
        ({"role": "user", "content": [RESULT]}, ("user", (), (), ("t",))),
        ({"role": "user", "content": [RESULT, {"type": "text", "text": "go on"}]}, ("user", ("go on",), (), ("t",))),
        ({"role": "assistant", "content": [USE]}, ("assistant", (), ("ls",), ())),
        ({"role": "user", "content": []}, ("user", (), (), ())),
        (None, ("", (), (), ())),
    ],
)
def test_a_message_shows_who_speaks_what_it_says_what_it_calls_and_what_came_back(item, seen):
    message = read_message(item)

    called, returned = tuple(call.name for call in message.calls), tuple(result.call_id for result in message.results)
    assert (message.role, message.texts, called, returned) == seen


@pytest.mark.parametrize("limit", [None, 0, True, "9"])
def test_an_answer_needs_a_limit_and_a_count_does_not(limit):
    body = {"messages": [USER], "max_tokens": limit}

    with pytest.raises(BadRequest) as caught:
        make_view(body, Dialect.MESSAGES)

    assert caught.value.param == "max_tokens"
    if limit is None:
        assert make_view(body, Dialect.MESSAGES, operation=Operation.COUNT_TOKENS).operation is Operation.COUNT_TOKENS


@pytest.mark.parametrize(
    ("body", "need"),
    [
        ({"tools": [{"name": "ls", "input_schema": {}}]}, Feature.TOOLS),
        ({"output_config": {"format": {"type": "json_schema"}}}, Feature.JSON_SCHEMA),
        ({"output_config": {"effort": "low"}}, Feature.REASONING),
        ({"thinking": {"type": "adaptive"}}, Feature.REASONING),
        ({"messages": [{"role": "user", "content": [{"type": "document", "source": {"data": "AA"}}]}]}, Feature.FILES),
    ],
)
def test_what_a_request_needs_is_read_from_its_fields(body, need):
    assert read(**body).needs == {Feature.TEXT, need}


def test_thinking_that_is_disabled_needs_no_reasoning():
    assert read(thinking={"type": "disabled"}).needs == {Feature.TEXT}


@pytest.mark.parametrize(
    ("body", "expected"),
    [({"thinking": {}}, True), ({"anthropic_version": "x"}, True), ({"tools": [None]}, False), ({"tools": "x"}, False)],
)
def test_a_body_is_recognised_by_what_chat_does_not_have(body, expected):
    assert recognise({"messages": [USER], **body}) is expected


@pytest.mark.parametrize(
    ("given", "texts"), [({}, ["T"]), ({"system": "S"}, ["S", "T"]), ({"system": [{"type": "text", "text": "S"}]}, ["S", "T"])]
)
def test_instructions_are_a_block_of_their_own(given, texts):
    changes: dict = {}

    add_instructions(given, "T", changes)

    assert [block["text"] for block in changes["system"]] == texts


def test_foreign_thinking_goes_and_a_message_of_nothing_else_with_it():
    thinking = {"type": "thinking", "thinking": "t", "signature": "theirs"}
    only = {"role": "assistant", "content": [thinking]}
    mixed = {"role": "assistant", "content": [thinking, {"type": "text", "text": "a"}]}
    view = make_view({"max_tokens": 9, "messages": [USER, only, USER, mixed, USER]}, Dialect.MESSAGES)
    (key, _) = all_keys(view)

    kept = without_foreign(replace(view, origins={key: "sage"}), "spark")

    assert kept == [USER, USER, {"role": "assistant", "content": [{"type": "text", "text": "a"}]}, USER]


def test_a_block_is_known_by_its_signature_its_data_or_its_words_and_only_in_an_assistants_message():
    blocks = [
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "thinking", "thinking": "t"},
    ]

    assert len(set(opaque_keys({"role": "assistant", "content": blocks}))) == 3
    assert list(opaque_keys({"role": "user", "content": blocks})) == []
    assert list(opaque_keys({"role": "assistant", "content": "x"})) == []


def test_messages_without_wrapped_thinking_are_the_same_messages():
    message = {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "theirs"}]}

    assert without_wrapped([USER, message]) == [USER, message]


NEW = {"anthropic-version": "2026-10-21"}
DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
CITED = {"type": "text", "text": "so", "citations": [{"type": "char_location", "cited_text": "x"}]}
FOUND = {"type": "search_result", "source": "a", "title": "b", "content": [{"type": "text", "text": "c"}, CITED]}


def ask(*messages: dict, headers: dict = NEW, operation: Operation = Operation.CREATE) -> object:
    return make_view({"messages": list(messages), "max_tokens": 9}, Dialect.MESSAGES, headers, operation=operation)


@pytest.mark.parametrize(
    ("role", "block", "place"),
    [
        ("assistant", DOCUMENT, "messages[1].content[0]"),
        ("user", CITED, "messages[1].content[0].citations"),
        ("user", FOUND, "messages[1].content[0].content[1].citations"),
    ],
)
@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.COUNT_TOKENS])
def test_blocks_are_refused_with_their_place_where_the_version_no_longer_has_them(role, block, place, operation):
    message = {"role": role, "content": [block]}
    before = {"role": "user", "content": "hi"}

    ask(before, message, headers={"anthropic-version": "2023-06-01"})
    ask(before, message, headers={"anthropic-version": "vertex-2023-10-16"})
    with pytest.raises(BadRequest, match="not permitted in anthropic-version 2026-10-21") as caught:
        ask(before, message, operation=operation)

    assert caught.value.param == place
    assert caught.value.message.startswith(f"{place}: ")


def test_documents_of_the_user_and_citations_of_the_assistant_stay_as_they_were():
    enabled = {**DOCUMENT, "citations": {"enabled": True}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [DOCUMENT]}

    ask({"role": "user", "content": [enabled, result]}, {"role": "assistant", "content": [CITED]})
    ask({"role": "user", "content": [{**CITED, "citations": []}, {**CITED, "citations": None}]})
    ask({"role": "user", "content": "what is a document with citations?"})
