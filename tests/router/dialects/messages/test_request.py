"""Requests of Anthropic Messages."""

import pytest

from router.contract.errors import BadRequest
from router.contract.request import ToolCall
from router.contract.words import Dialect, Feature, Operation
from router.dialects.messages.request import add_instructions, read_message, recognise
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


def test_only_a_request_that_continues_a_thread_may_come_without_a_message():
    assert len(read(messages=[], thread={"type": "continue"}).conversation) == 0

    for thread in ({"type": "create"}, None, "continue"):
        with pytest.raises(BadRequest, match="messages"):
            read(messages=[], thread=thread)
    with pytest.raises(BadRequest, match="messages"):
        read(messages=None, thread={"type": "continue"})
