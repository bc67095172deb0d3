"""The relay's own clock: heartbeats in a silent stream, and none where they would do harm."""

import asyncio

from router.contract.facts import FirstByte, FirstToken
from router.dispatch.relay import HEARTBEAT_SECONDS, Relay
from tests.tools.loop_clock import jumping_clock
from tests.tools.relays import make_relay

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


def headed(caller: Caller, *observers) -> Relay:
    relay = make_relay(caller, *observers)
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
