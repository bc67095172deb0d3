"""A conversation is read one message at a time, each once; a transcript knows who wrote each item."""

import pytest

from router.contract.request import Conversation, Message, Transcript


class Counted:
    """A conversation of texts, and what was read on the way."""

    def __init__(self, *texts: str) -> None:
        self.read: list[str] = []
        self.conversation = Conversation(list(texts), self._read)

    def _read(self, item: str) -> Message:
        self.read.append(item)
        return Message("user", (item,))


def test_only_the_messages_that_are_asked_for_are_read_and_each_once():
    told = Counted("a", "b", "c", "d")

    assert told.conversation[-1].texts == ("d",)
    assert told.conversation[3] is told.conversation[-1]
    assert told.conversation[0].texts == ("a",)
    assert told.read == ["d", "a"]


def test_a_slice_reads_its_own_messages_alone_in_order():
    told = Counted("a", "b", "c", "d")

    assert [message.texts[0] for message in told.conversation[1:3]] == ["b", "c"]
    assert [message.texts[0] for message in told.conversation[::-2]] == ["d", "b"]
    assert told.read == ["b", "c", "d"]


def test_a_message_is_the_same_by_its_place_and_by_its_index():
    told = Counted("a", "b")

    assert told.conversation.messages[1] is told.conversation[-1]
    assert told.read == ["b"]


def test_it_is_a_sequence_with_an_end():
    conversation = Counted("a", "b").conversation

    assert len(conversation) == 2
    assert [message.texts for message in conversation] == [("a",), ("b",)]
    for beyond in (2, -3):
        with pytest.raises(IndexError):
            conversation[beyond]


def test_a_transcript_goes_on_with_the_origin_of_every_item_and_leaves_the_old_one_alone():
    before = Transcript(["hello"], [""])

    after = before.then(["thought", "answer"], "spark").then(["thanks"], "")

    assert after == Transcript(["hello", "thought", "answer", "thanks"], ["", "spark", "spark", ""])
    assert before == Transcript(["hello"], [""])
