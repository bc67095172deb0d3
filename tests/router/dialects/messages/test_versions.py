"""What newer versions of the Messages API refuse."""

import pytest

from router.contract.errors import BadRequest
from router.contract.words import Dialect, Operation
from tests.tools.values import make_view

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
