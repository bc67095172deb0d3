"""Thinking blocks."""

from msgspec.structs import replace

from router.contract.words import Dialect
from router.dialects.messages.opaque import opaque_keys, without_wrapped
from router.dialects.opaque import all_keys, without_foreign
from tests.tools.values import make_view

USER = {"role": "user", "content": "x"}


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
