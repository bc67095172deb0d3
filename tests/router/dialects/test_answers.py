"""Answers by the name of their dialect."""

import pytest

from router.contract.words import Dialect
from router.dialects.answers import read_whole_answer
from router.dialects.sse import split_frames
from router.dialects.table import SPECS


@pytest.mark.parametrize("raw", [b"[]", b"null", b'{"error": {"message": "no"}, "choices": []}', b"{"])
def test_what_is_not_an_answer_of_any_dialect_is_refused(raw):
    for dialect in Dialect:
        with pytest.raises(ValueError):  # noqa: PT011  what it says differs: JSON's own words, or ours
            read_whole_answer(dialect, raw)


def test_an_answer_of_one_dialect_is_not_one_of_another():
    chat = b'{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}'

    assert read_whole_answer(Dialect.CHAT, chat).input_tokens == 3
    for dialect in (Dialect.RESPONSES, Dialect.MESSAGES):
        with pytest.raises(ValueError, match="an answer without"):
            read_whole_answer(dialect, chat)


def test_an_end_in_one_dialect_is_none_in_another():
    frames = split_frames(b'event: message_stop\ndata: {"type": "message_stop"}\n\n')

    assert SPECS[Dialect.MESSAGES].read_end(frames).is_complete
    assert not SPECS[Dialect.CHAT].read_end(frames).is_complete
