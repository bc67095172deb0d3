"""Messages answers as they are written here must satisfy the SDK's own types."""

import json
from dataclasses import replace

import orjson
import pytest

from router.contract.words import Dialect
from router.dialects.composer import Finish
from router.dialects.messages.compose import MessagesComposer
from tests.router.dialects.answers import ANSWER, written
from tests.tools.bridging import CHAT, MESSAGES, answer_to


@pytest.mark.parametrize(("thinking", "count"), [({}, 0), ({"thinking": {"type": "adaptive"}}, 1)])
def test_a_messages_caller_gets_thinking_only_if_it_asked_for_it(thinking, count):
    body = {"choices": [{"message": {"reasoning_content": "hm", "content": "hi"}, "finish_reason": "stop"}]}

    told = json.loads(answer_to(MESSAGES, CHAT, **thinking).whole(orjson.dumps(body)))

    assert [block["type"] for block in told["content"]].count("thinking") == count


@pytest.mark.parametrize("finish", list(Finish))
def test_every_event_fits_the_sdks_type(sdk, finish):
    adapter = sdk.events[Dialect.MESSAGES]
    events, _ = written(MessagesComposer, finish)

    assert len(events) >= 4
    for event in events:
        adapter.validate_python(event)


def test_a_whole_answer_fits_the_sdks_type(sdk):
    whole = sdk.whole[Dialect.MESSAGES].validate_python(written(MessagesComposer)[1])

    thinking, text, *calls = whole.content
    assert (thinking.thinking, thinking.signature) == ("hmm", "wrapped")
    assert text.text == "ab"
    assert [call.input for call in calls] == [{"path": "."}, {"input": "*** Begin"}, {}]


def test_blocks_follow_one_another_and_each_is_ended():
    events, _ = written(MessagesComposer)

    indexes = [event["index"] for event in events if event["type"].startswith("content_block_")]
    assert indexes == sorted(indexes)
    assert [event["index"] for event in events if event["type"] == "content_block_stop"] == [0, 1, 2, 3, 4]


def test_cached_tokens_are_counted_apart():
    _, whole = written(MessagesComposer)

    assert (whole["usage"]["input_tokens"], whole["usage"]["cache_read_input_tokens"]) == (9, 2)


def test_a_caller_that_did_not_ask_for_thinking_gets_none_of_it():
    events, whole = written(MessagesComposer, answer=replace(ANSWER, sends_thoughts=False))

    assert "thinking_delta" not in str(events)
    assert whole["content"][0]["type"] == "text"


@pytest.mark.parametrize(
    ("finish", "reason"), [(Finish.STOP, "tool_use"), (Finish.LENGTH, "max_tokens"), (Finish.FILTER, "refusal")]
)
def test_an_answer_says_why_it_ended(finish, reason):
    assert written(MessagesComposer, finish)[1]["stop_reason"] == reason
