"""A stream under way: what never leaves in it, heartbeats while it is silent, and how it ends."""

import asyncio

import pytest

from router.contract.errors import UpstreamCut, UpstreamTimeout
from router.contract.target import Timeouts
from router.dispatch.relay import Relay
from router.dispatch.streaming import HEARTBEAT_SECONDS
from tests.router.dispatch.relays import FRAME, LAST, Caller, Heading, begun, headed, make_relay
from tests.tools.loop_clock import jumping_clock

KEY = "sk-upstream-canary"
ECHO = f'data: {{"choices":[{{"delta":{{"content":"bad key {KEY}!"}}}}]}}\n\n'.encode()


def keyed(caller: Caller) -> Relay:
    relay = make_relay(caller, key=KEY)
    relay.start(200, (("content-type", "text/event-stream"), ("x-request-id", f"of {KEY}")))
    return relay


@pytest.mark.parametrize("size", [1, 7, 30, 1_000])
@pytest.mark.parametrize("before", [b"", FRAME], ids=["first", "later"])
async def test_the_targets_key_never_leaves_in_a_stream_however_it_is_cut(size, before):
    caller, whole = Heading(), before + ECHO + LAST
    relay = keyed(caller)

    for place in range(0, len(whole), size):
        relay.write(whole[place : place + size])
    relay.end()

    assert await relay.finished is None
    assert caller.body == whole.replace(KEY.encode(), b"***")
    assert b"" not in caller.written  # an empty chunk would end the answer
    assert KEY not in str(caller.headers)


async def test_what_only_began_like_the_key_leaves_when_the_stream_ends():
    caller = Caller()
    relay = keyed(caller)
    relay.write(FRAME)
    relay.write(LAST + b": sk-up")
    relay.end()

    assert caller.body == FRAME + LAST + b": sk-up"


async def test_a_stream_that_breaks_between_frames_says_so_and_has_no_proper_end():
    caller = Heading()
    relay = headed(caller)
    relay.write(FRAME)
    relay.fail(UpstreamCut("spark", "it broke"))

    assert (await relay.finished).code == "upstream_cut"
    assert b"it broke" in caller.written[1]
    assert caller.end_told is relay.finished.result()


async def test_a_stream_that_breaks_inside_a_frame_ends_without_another_word():
    caller = Heading()
    relay = headed(caller)
    relay.write(FRAME)
    relay.write(FRAME[:20])
    relay.fail(UpstreamCut("spark", "it broke"))

    assert caller.written == [FRAME, FRAME[:20]]
    assert isinstance(caller.end_told, UpstreamCut)


async def test_a_line_that_breaks_after_the_terminal_event_broke_nothing():
    caller = Heading()
    relay = headed(caller)
    relay.write(FRAME + LAST)
    relay.fail(UpstreamCut("spark", "it broke"))

    assert await relay.finished is None
    assert (caller.written, caller.end_told) == ([FRAME + LAST], "whole")


async def test_after_a_failure_nothing_more_reaches_the_caller():
    caller = Heading()
    relay = headed(caller)
    relay.write(FRAME)
    relay.fail(UpstreamCut("spark", "it broke"))
    written = list(caller.written)
    relay.write(FRAME + LAST)
    relay.end()

    assert caller.written == written
    assert isinstance(caller.end_told, UpstreamCut)


@pytest.mark.parametrize(("more", "is_whole"), [(b"", False), (LAST, True)])
async def test_a_line_that_is_cut_from_our_side_has_served_what_had_its_terminal_event(more, is_whole):
    relay = headed(Caller())
    relay.write(FRAME + more)

    assert relay.conclude() is is_whole
    relay.close()


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
