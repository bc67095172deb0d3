"""Silence in a stream: heartbeats and none where they would do harm, and an end to a stream of nothing but comments."""

import asyncio

import pytest

from router.contract.errors import UpstreamTimeout
from router.contract.target import Timeouts
from router.dispatch.silence import HEARTBEAT_SECONDS
from tests.tools.relays import FRAME, LAST, Caller, begun, headed

pytestmark = pytest.mark.jumping_clock


@pytest.fixture
def caller():
    return Caller()


async def test_a_silent_stream_gets_a_comment_with_every_heartbeat_until_it_ends(caller):
    relay = begun(caller)

    await asyncio.sleep(3.5 * HEARTBEAT_SECONDS)
    beats = caller.beats
    relay.write(LAST)
    relay.end()
    await asyncio.sleep(10 * HEARTBEAT_SECONDS)

    assert await relay.finished is None
    assert beats == caller.beats == 3
    assert caller.body.replace(b": heartbeat\n\n", b"") == FRAME + LAST


async def test_a_stream_that_is_never_silent_for_half_a_heartbeat_gets_no_comment(caller):
    relay = begun(caller)

    for _ in range(20):
        await asyncio.sleep(0.4 * HEARTBEAT_SECONDS)
        relay.write(FRAME)
    relay.close()

    assert caller.beats == 0


async def test_no_comment_is_written_into_the_middle_of_a_frame(caller):
    relay = begun(caller, FRAME + b"data: {")

    await asyncio.sleep(5 * HEARTBEAT_SECONDS)
    relay.close()

    assert caller.beats == 0


async def test_a_caller_that_does_not_read_is_sent_no_comments_until_it_does(caller):
    relay = begun(caller)
    relay.pause()
    await asyncio.sleep(5 * HEARTBEAT_SECONDS)
    assert caller.beats == 0

    relay.resume()
    await asyncio.sleep(HEARTBEAT_SECONDS)
    relay.close()

    assert caller.beats >= 1


async def test_comments_are_no_progress_and_a_stream_of_nothing_else_ends_at_the_stall_limit(caller):
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


async def test_a_stream_with_an_event_now_and_then_goes_on_for_ever(caller):
    relay = headed(caller, timeouts=Timeouts(5, 60, 40))

    for _ in range(20):
        relay.write(FRAME)
        for _ in range(35):
            await asyncio.sleep(1)
            relay.write(b": ping\n\n")

    assert not relay.finished.done()
    relay.close()


async def test_before_the_first_token_comments_are_waited_for_as_long_as_for_a_first_byte(caller):
    relay = headed(caller, timeouts=Timeouts(5, 120, 40))
    for _ in range(100):
        relay.write(b": wait\n\n")
        await asyncio.sleep(1)
    assert not relay.finished.done()

    await asyncio.sleep(60)

    assert isinstance(await relay.finished, UpstreamTimeout)


async def test_a_caller_that_does_not_read_does_not_make_its_target_late(caller):
    relay = headed(caller, timeouts=Timeouts(5, 40, 40))
    relay.write(FRAME)
    relay.pause()

    await asyncio.sleep(200)

    assert not relay.finished.done()
    relay.close()
