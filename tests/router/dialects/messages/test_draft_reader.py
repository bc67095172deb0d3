"""Messages requests on their way to another dialect."""

import base64
import json

import pytest

from router.contract.errors import BadRequest, Misfit, TooDeep
from router.dialects.messages.draft_reader import read_draft
from router.dialects.translate.bridges import BRIDGES
from router.dialects.translate.draft import DraftResult, DraftText, Text
from tests.tools.bridging import CHAT, MESSAGES, RESPONSES, claude, crossed


def document(source: dict) -> dict:
    return {"type": "document", "source": source}


def test_a_search_result_is_told_as_text_with_its_title_and_source():
    said = {
        "type": "search_result",
        "title": "Guide",
        "source": "https://a/b",
        "content": [{"type": "text", "text": "Turn it."}],
    }
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [said]}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "find", "input": {}}]}

    for target in (CHAT, RESPONSES):
        body, dropped = crossed(
            MESSAGES, target, claude({"role": "user", "content": [said]}, call, {"role": "user", "content": [result]})
        )

        assert (
            json.dumps(body).count("Turn it.") == json.dumps(body).count("https://a/b") == json.dumps(body).count("Guide") == 2
        )
        assert dropped == ()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inside: {"type": "search_result", "title": "t", "source": "s", "content": [inside]},
        lambda inside: document({"type": "content", "content": [inside]}),
    ],
)
def test_blocks_that_are_nested_too_deeply_are_refused(wrap):
    block = {"type": "text", "text": "x"}
    for _ in range(900):
        block = wrap(block)

    with pytest.raises(TooDeep):
        BRIDGES[MESSAGES, CHAT].draft(claude({"role": "user", "content": [block]}))


def test_documents_of_text_are_told_as_text():
    content = [
        document({"type": "content", "content": [{"type": "text", "text": "INNER"}]}),
        document({"type": "base64", "media_type": "text/plain", "data": base64.b64encode(b"PLAIN").decode()}),
        {"type": "text", "text": "see"},
    ]
    by_address = document({"type": "url", "url": "https://a/b.pdf"})

    chat, dropped = crossed(MESSAGES, CHAT, claude({"role": "user", "content": content}))
    responses, _ = crossed(MESSAGES, RESPONSES, claude({"role": "user", "content": [*content, by_address]}))

    assert "INNER" in chat["messages"][0]["content"]
    assert "PLAIN" in chat["messages"][0]["content"]
    assert dropped == ()
    assert {"type": "input_file", "file_url": "https://a/b.pdf"} in responses["input"][0]["content"]


def test_a_file_by_its_address_cannot_be_passed_to_chat():
    by_address = document({"type": "url", "url": "https://a/b.pdf"})

    with pytest.raises(Misfit, match="a file by URL"):
        crossed(MESSAGES, CHAT, claude({"role": "user", "content": [by_address, {"type": "text", "text": "see"}]}))


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        ({"type": "enabled", "budget_tokens": 2_000}, "low"),
        ({"type": "enabled", "budget_tokens": 4_000}, "medium"),
        ({"type": "enabled", "budget_tokens": 32_000}, "high"),
        ({"type": "adaptive"}, None),
    ],
)
def test_a_budget_for_thinking_amounts_to_an_effort(thinking, effort):
    draft = read_draft(claude(thinking=thinking))

    assert draft.effort == effort
    assert draft.wants_thoughts


def test_thinking_that_is_disabled_is_named_as_lost():
    draft = read_draft(claude(thinking={"type": "disabled"}))

    assert not draft.wants_thoughts
    assert list(draft.dropped) == ["thinking: disabled"]


def test_an_unknown_role_is_refused_naming_its_place():
    with pytest.raises(BadRequest, match=r"messages\[0\].role"):
        read_draft(claude({"role": "narrator", "content": "x"}))


def test_words_before_and_after_a_result_stay_in_their_order():
    content = [{"type": "text", "text": "a"}, {"type": "tool_result", "tool_use_id": "t", "content": "r", "is_error": True}]

    draft = read_draft(claude({"role": "user", "content": [*content, {"type": "text", "text": "b"}]}))

    assert draft.lines == [
        DraftText("user", (Text("a"),)),
        DraftResult("t", (Text("r"),), is_error=True),
        DraftText("user", (Text("b"),)),
    ]
