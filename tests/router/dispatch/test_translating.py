"""A translation that breaks ends its attempt; what it heard of usage is the relay's."""

import asyncio
import json

import pytest

from router.contract.errors import UpstreamMalformed, UpstreamTimeout
from router.contract.target import Timeouts
from router.contract.words import Dialect
from router.dialects.sse import split_frames
from router.dialects.translate.bridges import BRIDGES
from router.dialects.translate.context import WriteContext
from router.dispatch.opening import MAX_HELD_SECONDS
from router.dispatch.relay import Relay
from router.dispatch.streaming import HEARTBEAT_SECONDS
from router.dispatch.translating import TranslatingSink
from tests.router.dispatch.relays import Caller, make_relay
from tests.tools.values import make_target, make_view

pytestmark = pytest.mark.jumping_clock

EVENTS = (("content-type", "text/event-stream"),)
JSON = (("content-type", "application/json"),)


def bridged(
    caller: Caller, *, is_streaming: bool = True, dialect: Dialect = Dialect.RESPONSES, max_bytes: int = 1 << 20, **more
):
    body = {"input": "x"} if dialect is Dialect.RESPONSES else {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}
    view = make_view({**body, "stream": is_streaming}, dialect)
    answer = BRIDGES[dialect, Dialect.CHAT].cross(view, WriteContext(make_target(), "m"), created=1).answer
    relay = make_relay(caller, view=view, translator=answer, max_bytes=max_bytes, **more)
    return translating(answer, relay, is_streaming=is_streaming, max_bytes=max_bytes), relay


def translating(answer, relay: Relay, *, is_streaming: bool = True, max_bytes: int = 1 << 20) -> TranslatingSink:
    return TranslatingSink(
        answer,
        relay,
        relay.finished,
        target="spark",
        dialect=Dialect.CHAT,
        is_streaming=is_streaming,
        max_bytes=max_bytes,
    )


def frame(body: dict) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


async def outcome(relay: Relay):
    return await asyncio.wait_for(relay.finished, 30)


@pytest.fixture
def caller():
    return Caller()


async def test_a_stream_that_was_told_as_failed_is_over_though_its_target_goes_on(caller):
    sink, relay = bridged(caller)

    sink.start(200, EVENTS)
    sink.write(frame({"choices": [{"delta": {"content": "a"}}]}))
    sink.write(b"data: {no json}\n\n")
    written = caller.body
    sink.write(frame({"choices": [{"delta": {"content": "b"}}]}))

    assert (await outcome(relay)) is relay.ended_in_stream
    assert b"response.failed" in written
    assert caller.body == written


async def test_an_answer_larger_than_allowed_ends_the_attempt():
    sink, relay = bridged(Caller(), is_streaming=False, max_bytes=10)

    sink.start(200, JSON)
    sink.write(b"x" * 11)
    sink.end()

    assert isinstance(await outcome(relay), UpstreamMalformed)


async def test_a_stream_larger_than_allowed_ends_with_an_error_in_it(caller):
    sink, relay = bridged(caller, max_bytes=2_000)
    sink.start(200, EVENTS)
    for _ in range(60):
        sink.write(frame({"choices": [{"delta": {"content": "word " * 10}}]}))

    assert isinstance(await outcome(relay), UpstreamMalformed)
    assert b"response.failed" in caller.body
    assert b"response.completed" not in caller.body


async def test_the_targets_usage_is_known_though_the_caller_did_not_ask(caller):
    sink, relay = bridged(caller)
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}

    sink.start(200, EVENTS)
    sink.write(
        frame({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}) + frame({"choices": [], "usage": usage})
    )
    sink.write(b"data: [DONE]\n\n")
    sink.end()

    assert await outcome(relay) is None
    assert (relay.usage.input_tokens, relay.usage.output_tokens, relay.usage.cached_tokens) == (7, 3, 5)


async def test_a_stream_without_a_content_type_is_one_when_one_was_asked_for(caller):
    sink, relay = bridged(caller)

    sink.start(200, ())
    sink.write(frame({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n")
    sink.end()

    assert await outcome(relay) is None
    assert b"response.completed" in caller.body


async def test_a_silent_bridged_responses_stream_repeats_that_it_is_in_progress():
    """Its clients time the events that they parse: a comment is none."""
    caller = Caller()
    sink, relay = bridged(caller)

    sink.start(200, EVENTS)
    sink.write(frame({"choices": [{"delta": {"content": "a"}}]}))
    await asyncio.sleep(2.5 * HEARTBEAT_SECONDS)
    told = caller.body.count(b"event: response.in_progress")
    sink.write(frame({"choices": [{"delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n")
    sink.end()

    assert told == 3  # one that opens the stream, and one for each heartbeat
    assert await outcome(relay) is None
    numbers = [found.json()["sequence_number"] for found in split_frames(caller.body)]
    assert numbers == list(range(len(numbers)))


async def test_an_error_as_the_first_event_is_a_refusal_in_the_callers_dialect_and_nothing_reaches_the_caller(caller):
    sink, relay = bridged(caller)
    sink.start(200, EVENTS)
    sink.write(b": wait\n\n")
    sink.write(frame({"error": {"message": "the prompt is odd", "code": 400}}))
    sink.write(frame({"choices": [{"delta": {"content": "late"}}]}))
    sink.end()

    error = await outcome(relay)
    assert (error.status, caller.body, relay.has_reached_caller) == (400, b"", False)
    assert json.loads(error.body)["error"]["message"] == "the prompt is odd"


async def test_over_a_bridge_a_host_that_only_comments_is_known_to_live(caller):
    sink, relay = bridged(caller)
    sink.start(200, EVENTS)
    sink.write(b": wait\n\n")
    await asyncio.sleep(MAX_HELD_SECONDS + 0.1)
    assert caller.body == b": heartbeat\n\n"

    sink.write(frame({"choices": [{"delta": {"content": "a"}}]}))
    sink.write(frame({"choices": [{"delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n")
    sink.end()

    assert await outcome(relay) is None
    assert b"response.completed" in caller.body


async def test_over_a_bridge_comments_are_no_progress():
    sink, relay = bridged(Caller(), timeouts=Timeouts(5, 40, 40))
    sink.start(200, EVENTS)
    sink.write(frame({"choices": [{"delta": {"content": "a"}}]}))
    for _ in range(60):
        await asyncio.sleep(1)
        sink.write(b": ping\n\n")

    assert isinstance(await outcome(relay), UpstreamTimeout)


class BrokenAnswer:
    """A translation with a defect of ours."""

    def feed(self, data: bytes) -> bytes:
        raise KeyError("sk-canary in a foreign field")


class FailedRelay(Caller):
    error = finished = None

    def fail(self, error) -> None:
        self.error = error


def test_a_translation_that_breaks_is_logged_by_its_kind_and_line_and_never_by_its_values(listen):
    logged = listen()
    relay = FailedRelay()
    sink = translating(BrokenAnswer(), relay, max_bytes=100)

    sink.start(200, EVENTS)
    sink.write(b"data: {}\n\n")

    (facts,) = logged()
    assert facts["event"] == "bridge.failed"
    assert (facts["target"], facts["kind"], facts["where"].split(":")[0]) == ("spark", "KeyError", "feed")
    assert "canary" not in str(facts)
    assert isinstance(relay.error, UpstreamMalformed)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"error": {"message": "no"}}'])
async def test_what_is_no_answer_at_all_is_the_targets_fault_and_not_logged_as_the_bridges(listen, body):
    logged = listen()
    sink, relay = bridged(Caller(), is_streaming=False)

    sink.start(200, JSON)
    sink.write(body)
    sink.end()

    assert (await outcome(relay)).message == 'target "spark" sent a body that is not valid in its dialect'
    assert logged() == []
