"""The relay's own clock: heartbeats in a silent stream, and none where they would do harm."""

import asyncio
import time

from router.contract.words import Dialect
from router.dispatch.relay import Relay

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


def headed(caller: Caller, tell=lambda: None) -> Relay:
    relay = Relay(
        caller,
        target="spark",
        dialect=Dialect.CHAT,
        request_id="req_1",
        is_streaming=True,
        max_bytes=1 << 20,
        head=tuple,
        begun=tell,
        clock=time.perf_counter,
        heartbeat_seconds=0.04,
    )
    relay.start(200, (("content-type", "text/event-stream"),))
    return relay


def begun(caller: Caller, first: bytes = FRAME) -> Relay:
    relay = headed(caller)
    relay.write(first)
    return relay


async def until(condition) -> None:
    async with asyncio.timeout(2):
        while not condition():  # noqa: ASYNC110  a relay has no event for what it has not written
            await asyncio.sleep(0.005)


async def test_a_silent_stream_gets_a_comment_again_and_again_until_it_ends():
    caller = Caller()
    relay = begun(caller)

    await until(lambda: caller.beats >= 2)
    relay.write(LAST)
    relay.end()
    beats = caller.beats
    await asyncio.sleep(0.1)

    assert await relay.finished is None
    assert caller.beats == beats
    assert b"".join(caller.written).replace(b": heartbeat\n\n", b"") == FRAME + LAST


async def test_no_comment_is_written_into_the_middle_of_a_frame():
    caller = Caller()
    relay = begun(caller, FRAME + b"data: {")

    await asyncio.sleep(0.15)
    relay.close()

    assert caller.beats == 0


async def test_a_caller_that_does_not_read_is_sent_no_comments():
    caller = Caller()
    relay = begun(caller)
    relay.pause()

    await asyncio.sleep(0.15)
    relay.close()

    assert caller.beats == 0


async def test_that_an_answer_has_begun_is_told_right_behind_its_first_bytes():
    caller, seen = Caller(), []
    relay = headed(caller, lambda: seen.append(list(caller.written)))
    assert seen == []
    relay.write(FRAME)
    relay.write(FRAME)
    relay.close()
    assert seen == [[FRAME]]
