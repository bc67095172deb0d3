"""Messages requests on their way to another dialect."""

import base64
import json

import pytest

from router.contract.errors import BadRequest
from router.dialects.messages.draft_reader import read_draft
from router.dialects.translate.draft import DraftResult, DraftText, Text
from tests.tools.bridging import CHAT, MESSAGES, RESPONSES, claude, crossed


def document(source: dict) -> dict:
    return {"type": "document", "source": source}


def test_documents_of_text_are_told_as_text_and_what_has_no_form_is_named():
    content = [
        document({"type": "content", "content": [{"type": "text", "text": "INNER"}]}),
        document({"type": "base64", "media_type": "text/plain", "data": base64.b64encode(b"PLAIN").decode()}),
        document({"type": "url", "url": "https://a/b.pdf"}),
        document({"type": "file", "file_id": "file_2"}),
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "text", "text": "see"},
    ]

    chat, dropped = crossed(MESSAGES, CHAT, claude({"role": "user", "content": content}))
    responses, _ = crossed(MESSAGES, RESPONSES, claude({"role": "user", "content": content}))

    assert [part["type"] for part in chat["messages"][0]["content"]] == ["text"] * 3
    assert "INNER" in json.dumps(chat)
    assert "PLAIN" in json.dumps(chat)
    assert set(dropped) == {"a file by id", "an image by id", "a file by URL"}
    assert {"type": "input_file", "file_url": "https://a/b.pdf"} in responses["input"][0]["content"]


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
