"""The relay's own clock: heartbeats in a silent stream, and none where they would do harm."""

import asyncio

import pytest

from router.contract.errors import UpstreamCut, UpstreamTimeout
from router.contract.facts import FirstByte, FirstToken
from router.contract.target import Timeouts
from router.contract.words import Dialect
from router.dispatch.opening import MAX_HELD_SECONDS
from router.dispatch.relay import HEARTBEAT_SECONDS, Relay, passed_headers
from tests.tools.loop_clock import jumping_clock
from tests.tools.relays import make_relay
from tests.tools.values import make_view

FRAME = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
LAST = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Caller:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def feed_from(self, flow) -> None: ...
    def start(self, status, headers) -> None: ...
    def end(self) -> None: ...
    def fail(self, error) -> None: ...

    def write(self, data: bytes) -> None:
        self.written.append(data)

    @property
    def beats(self) -> int:
        return self.written.count(b": heartbeat\n\n")


def headed(caller: Caller, *observers, **more) -> Relay:
    relay = make_relay(caller, *observers, **more)
    relay.start(200, (("content-type", "text/event-stream"),))
    return relay


def begun(caller: Caller, first: bytes = FRAME) -> Relay:
    relay = headed(caller)
    relay.write(first)
    return relay


@jumping_clock
async def test_a_silent_stream_gets_a_comment_with_every_heartbeat_until_it_ends():
    caller = Caller()
    relay = begun(caller)

    await asyncio.sleep(3.5 * HEARTBEAT_SECONDS)
    beats = caller.beats
    relay.write(LAST)
    relay.end()
    await asyncio.sleep(10 * HEARTBEAT_SECONDS)

    assert await relay.finished is None
    assert beats == caller.beats == 3
    assert b"".join(caller.written).replace(b": heartbeat\n\n", b"") == FRAME + LAST


@jumping_clock
async def test_a_stream_that_is_never_silent_for_half_a_heartbeat_gets_no_comment():
    caller = Caller()
    relay = begun(caller)

    for _ in range(20):
        await asyncio.sleep(0.4 * HEARTBEAT_SECONDS)
        relay.write(FRAME)
    relay.close()

    assert caller.beats == 0


@jumping_clock
async def test_no_comment_is_written_into_the_middle_of_a_frame():
    caller = Caller()
    relay = begun(caller, FRAME + b"data: {")

    await asyncio.sleep(5 * HEARTBEAT_SECONDS)
    relay.close()

    assert caller.beats == 0


@jumping_clock
async def test_a_caller_that_does_not_read_is_sent_no_comments_until_it_does():
    caller = Caller()
    relay = begun(caller)
    relay.pause()
    await asyncio.sleep(5 * HEARTBEAT_SECONDS)
    assert caller.beats == 0

    relay.resume()
    await asyncio.sleep(HEARTBEAT_SECONDS)
    relay.close()

    assert caller.beats >= 1


class Watching:
    """Keeps what the caller had been sent when it was told of a fact."""

    def __init__(self, caller: Caller, kind) -> None:
        self.kind, self.caller, self.seen = kind, caller, []

    def handlers(self):
        return {self.kind: lambda exchange, fact: self.seen.append(list(self.caller.written))}


async def test_that_an_answer_has_begun_is_noted_right_after_its_first_bytes():
    caller = Caller()
    watching = Watching(caller, FirstByte)
    relay = headed(caller, watching)
    assert watching.seen == []
    relay.write(FRAME)
    relay.write(FRAME)
    relay.close()
    assert watching.seen == [[FRAME]]


async def test_the_first_token_is_noted_once_and_not_for_the_frame_that_opens_the_stream():
    caller = Caller()
    watching = Watching(caller, FirstToken)
    relay = headed(caller, watching)
    opening = b'data: {"choices":[]}\n\n'
    relay.write(opening)
    assert watching.seen == []
    relay.write(FRAME)
    relay.write(FRAME)
    relay.close()
    assert watching.seen == [[opening, FRAME]]


KEY = "sk-upstream-canary"
ECHO = f'data: {{"choices":[{{"delta":{{"content":"bad key {KEY}!"}}}}]}}\n\n'.encode()


def keyed(caller: Caller) -> Relay:
    relay = make_relay(caller, key=KEY)
    relay.start(200, (("content-type", "text/event-stream"), ("x-request-id", f"of {KEY}")))
    return relay


class Heading(Caller):
    """Keeps the head too."""

    headers = ()

    def start(self, status, headers) -> None:
        self.headers = headers


@pytest.mark.parametrize("size", [1, 7, 30, 1_000])
@pytest.mark.parametrize("before", [b"", FRAME], ids=["first", "later"])
async def test_the_targets_key_never_leaves_in_a_stream_however_it_is_cut(size, before):
    caller, whole = Heading(), before + ECHO + LAST
    relay = keyed(caller)

    for place in range(0, len(whole), size):
        relay.write(whole[place : place + size])
    relay.end()

    assert await relay.finished is None
    assert b"".join(caller.written) == whole.replace(KEY.encode(), b"***")
    assert b"" not in caller.written  # an empty chunk would end the answer
    assert KEY not in str(caller.headers)


async def test_what_only_began_like_the_key_leaves_when_the_stream_ends():
    caller = Caller()
    relay = keyed(caller)
    relay.write(FRAME)
    relay.write(LAST + b": sk-up")
    relay.end()

    assert b"".join(caller.written) == FRAME + LAST + b": sk-up"


async def test_the_targets_key_never_leaves_in_a_whole_answer():
    caller = Heading()
    view = make_view({"messages": [{"role": "user", "content": "hi"}]}, Dialect.CHAT)
    relay = make_relay(caller, key=KEY, view=view)
    relay.start(200, (("content-type", "application/json"), ("x-ratelimit-key", KEY)))
    relay.write(b'{"choices":[{"message":{"content":"%b"}}]}' % KEY.encode())
    relay.end()

    assert await relay.finished is None
    assert b"".join(caller.written) == b'{"choices":[{"message":{"content":"***"}}]}'
    assert dict(caller.headers)["content-length"] == str(len(caller.written[0]))
    assert KEY not in str(caller.headers)


async def test_the_targets_key_never_leaves_in_a_refusal_or_in_the_words_for_one():
    refused, odd = make_relay(Caller(), key=KEY), make_relay(Caller(), key=KEY)
    refused.start(400, (("content-type", f"text/{KEY}"),))
    refused.write(f"bad header Bearer {KEY}".encode())
    refused.end()
    odd.start(200, (("content-type", f"text/{KEY}"),))

    error = await refused.finished
    assert (error.body, error.content_type) == (b"bad header Bearer ***", "text/***")
    assert KEY not in (await odd.finished).message


@jumping_clock
async def test_comments_are_no_progress_and_a_stream_of_nothing_else_ends_at_the_stall_limit():
    caller = Caller()
    relay = headed(caller, timeouts=Timeouts(5, 60, 40))
    relay.write(FRAME)

    for _ in range(60):
        await asyncio.sleep(1)
        relay.write(b": ping\n\n")

    error = await relay.finished
    assert isinstance(error, UpstreamTimeout)
    assert "sent no event for 40 s" in error.message
    assert b"upstream_timeout" in caller.written[-1]
    assert 40 <= caller.written.count(b": ping\n\n") <= 50


@jumping_clock
async def test_a_stream_with_an_event_now_and_then_goes_on_for_ever():
    caller = Caller()
    relay = headed(caller, timeouts=Timeouts(5, 60, 40))

    for _ in range(20):
        relay.write(FRAME)
        for _ in range(35):
            await asyncio.sleep(1)
            relay.write(b": ping\n\n")

    assert not relay.finished.done()
    relay.close()


@jumping_clock
async def test_before_the_first_token_comments_are_waited_for_as_long_as_for_a_first_byte():
    caller = Caller()
    relay = headed(caller, timeouts=Timeouts(5, 120, 40))
    for _ in range(100):
        relay.write(b": wait\n\n")
        await asyncio.sleep(1)
    assert not relay.finished.done()

    await asyncio.sleep(60)

    assert isinstance(await relay.finished, UpstreamTimeout)


@jumping_clock
async def test_a_caller_that_does_not_read_does_not_make_its_target_late():
    caller = Caller()
    relay = headed(caller, timeouts=Timeouts(5, 40, 40))
    relay.write(FRAME)
    relay.pause()

    await asyncio.sleep(200)

    assert not relay.finished.done()
    relay.close()


async def test_an_error_as_the_first_event_leaves_the_caller_untouched():
    caller = Caller()
    relay = headed(caller)
    relay.write(b": wait\n\n")
    relay.write(b'data: {"error":{"message":"no","code":429}}\n\n')

    error = await relay.finished
    assert (error.status, relay.status, relay.has_reached_caller, caller.written) == (429, 429, False, [])


async def test_a_stream_of_comments_that_is_cut_leaves_the_caller_untouched():
    caller = Caller()
    relay = headed(caller)
    relay.write(b": wait\n\n")
    relay.end()

    assert isinstance(await relay.finished, UpstreamCut)
    assert caller.written == []


@jumping_clock
async def test_comments_of_a_slow_host_are_passed_on_in_time():
    caller = Caller()
    relay = headed(caller)
    relay.write(b": wait\n\n")

    await asyncio.sleep(MAX_HELD_SECONDS + 0.1)

    assert caller.written == [b": wait\n\n"]
    relay.close()


def test_no_more_of_a_targets_headers_pass_than_a_client_can_take():
    limits = tuple((f"x-ratelimit-{number}", "9") for number in range(190))
    long = (("x-ratelimit-long", "x" * 60_000), ("x-ratelimit-requests", "5"))

    many = passed_headers((*limits, ("x-request-id", "r1")))
    assert ("x-request-id", "r1") in many
    assert len(many) == 40
    assert passed_headers((*long, ("x-request-id", "r1"))) == (("x-request-id", "r1"), ("x-ratelimit-requests", "5"))
    assert passed_headers(limits[:20]) == limits[:20]
