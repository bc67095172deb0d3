"""A stream under way: what never leaves in it, and how it ends."""

import pytest

from router.contract.errors import UpstreamCut
from router.dispatch.relay import Relay
from tests.tools.relays import FRAME, LAST, Caller, Heading, headed, make_relay

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
