"""Calls that a target writes at once, told one after another."""

import json

import pytest

from router.dialects.chat.compose import ChatComposer
from router.dialects.composer import Answer
from router.dialects.translate.sequencer import CallSequencer
from tests.tools.bridging import CALLERS_OF_CHAT, CHAT, MESSAGES, call, calls_of, chunk, heard


@pytest.mark.parametrize("caller", CALLERS_OF_CHAT)
def test_calls_that_are_announced_before_any_argument_keep_their_arguments(caller):
    events = heard(
        caller,
        CHAT,
        call(0, "a", "f"),
        call(1, "b", "g"),
        call(0, arguments='{"x":1}'),
        call(1, arguments='{"y":2}'),
        chunk(finish="tool_calls"),
    )

    assert calls_of(events) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


@pytest.mark.parametrize("caller", CALLERS_OF_CHAT)
def test_arguments_for_a_call_that_has_ended_fail_the_answer(caller):
    pieces = (call(0, "a", "f", "{}"), call(1, "b", "g", "{"), call(0, arguments='{"more":1}'), chunk(finish="stop"))

    events = heard(caller, CHAT, *pieces)

    assert events[-1]["type"] in ("response.failed", "error")
    assert "upstream_malformed" in json.dumps(events[-1])


def test_text_between_the_pieces_of_a_call_comes_after_it():
    said = (chunk({"content": "note"}), chunk({"reasoning_content": "hm"}))

    events = heard(MESSAGES, CHAT, call(0, "a", "f", '{"x":'), *said, call(0, arguments="1}"), chunk(finish="stop"))

    assert calls_of(events) == [("a", "f", '{"x":1}')]
    blocks = [event["index"] for event in events if event["type"].startswith("content_block_")]
    assert blocks == sorted(blocks)
    assert [event["delta"]["text"] for event in events if "text" in event.get("delta", {})] == ["note"]


class Spy(ChatComposer):
    """A composer that notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__(Answer("x", "m", 1))
        self.asked: list[str] = []

    def text(self, delta: str) -> bytes:
        self.asked.append(f"text {delta}")
        return b""

    def begin_call(self, call_id: str, name: str) -> bytes:
        self.asked.append(f"begin {call_id}")
        return b""

    def arguments(self, delta: str) -> bytes:
        self.asked.append(f"arguments {delta}")
        return b""

    def end_call(self, *, is_cut: bool = False) -> bytes:
        self.asked.append("cut" if is_cut else "end")
        return b""


def test_the_first_call_is_told_as_it_comes_and_the_second_waits_until_it_is_whole():
    spy = Spy()
    sequencer = CallSequencer(spy)

    sequencer.begin(0, "a", "f")
    sequencer.begin(1, "b", "g")
    sequencer.arguments(1, '{"y":2}')
    sequencer.arguments(0, '{"x"')
    sequencer.text("note")
    before = list(spy.asked)
    sequencer.arguments(0, ":1}")
    sequencer.end_all()

    assert before == ["begin a", 'arguments {"x"']
    assert spy.asked[2:] == ["arguments :1}", "end", "begin b", 'arguments {"y":2}', "end", "text note"]


def test_a_call_without_arguments_is_not_whole_until_its_end_is_said():
    spy = Spy()
    sequencer = CallSequencer(spy)
    sequencer.begin(0, "a", "f")

    assert sequencer.knows(0)
    assert not sequencer.is_whole(0)
    sequencer.end(0)
    assert sequencer.is_whole(0)
    assert spy.asked == ["begin a", "end"]


def test_arguments_of_no_call_are_refused_and_blank_ones_are_not():
    sequencer = CallSequencer(Spy())

    assert sequencer.arguments(7, " \n") == b""
    with pytest.raises(ValueError, match="without an open call"):
        sequencer.arguments(7, "{}")
