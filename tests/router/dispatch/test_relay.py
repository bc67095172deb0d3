"""One attempt's answer on its way: what is noted when, what never leaves, and what leaves its caller untouched."""

import asyncio

import pytest

from router.contract.errors import UpstreamCut
from router.contract.facts import FirstByte, FirstToken
from router.contract.words import Dialect
from router.dispatch.opening import MAX_HELD_SECONDS
from tests.router.dispatch.relays import FRAME, Caller, Heading, headed, make_relay
from tests.tools.loop_clock import jumping_clock
from tests.tools.values import make_view


class Watching:
    """Keeps what the caller had been sent when it was told of a fact."""

    def __init__(self, caller: Caller, kind) -> None:
        self.kind, self.caller, self.seen = kind, caller, []

    def handlers(self):
        return {self.kind: lambda exchange, fact: self.seen.append(list(self.caller.written))}


@pytest.fixture
def caller():
    return Caller()


async def test_that_an_answer_has_begun_is_noted_right_after_its_first_bytes(caller):
    watching = Watching(caller, FirstByte)
    relay = headed(caller, watching)
    assert watching.seen == []
    relay.write(FRAME)
    relay.write(FRAME)
    relay.close()
    assert watching.seen == [[FRAME]]


async def test_the_first_token_is_noted_once_and_not_for_the_frame_that_opens_the_stream(caller):
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


async def test_the_targets_key_never_leaves_in_a_whole_answer():
    caller = Heading()
    view = make_view({"messages": [{"role": "user", "content": "hi"}]}, Dialect.CHAT)
    relay = make_relay(caller, key=KEY, view=view)
    relay.start(200, (("content-type", "application/json"), ("x-ratelimit-key", KEY)))
    relay.write(b'{"choices":[{"message":{"content":"%b"}}]}' % KEY.encode())
    relay.end()

    assert await relay.finished is None
    assert caller.body == b'{"choices":[{"message":{"content":"***"}}]}'
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


async def test_an_error_as_the_first_event_leaves_the_caller_untouched(caller):
    relay = headed(caller)
    relay.write(b": wait\n\n")
    relay.write(b'data: {"error":{"message":"no","code":429}}\n\n')

    error = await relay.finished
    assert (error.status, relay.status, relay.has_reached_caller, caller.written) == (429, 429, False, [])


async def test_a_stream_of_comments_that_is_cut_leaves_the_caller_untouched(caller):
    relay = headed(caller)
    relay.write(b": wait\n\n")
    relay.end()

    assert isinstance(await relay.finished, UpstreamCut)
    assert caller.written == []


@jumping_clock
async def test_comments_of_a_slow_host_are_passed_on_in_time(caller):
    relay = headed(caller)
    relay.write(b": wait\n\n")

    await asyncio.sleep(MAX_HELD_SECONDS + 0.1)

    assert caller.written == [b": wait\n\n"]
    relay.close()


ALONE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}\n\n'
DONE = b"data: [DONE]\n\n"
FINISH = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'


async def relayed(*pieces: bytes, hides_usage: bool = True, key: str = ""):
    """What reaches the caller of a stream that comes in these pieces, and the relay after it."""
    caller = Heading()
    relay = make_relay(caller, key=key)
    relay.hides_usage = hides_usage
    relay.start(200, (("content-type", "text/event-stream"),))
    for piece in pieces:
        relay.write(piece)
    relay.end()
    assert (await relay.finished, caller.end_told) == (None, "whole")
    return caller.written, relay


async def test_usage_that_the_caller_asked_for_is_passed_on():
    written, relay = await relayed(FRAME, FINISH + ALONE + DONE, hides_usage=False)

    assert written == [FRAME, FINISH + ALONE + DONE]
    assert relay.usage.output_tokens == 7


async def test_usage_is_taken_out_of_a_stream_that_comes_in_one_piece_or_byte_by_byte():
    stream = FRAME + FINISH + ALONE + DONE

    for pieces in ([stream], [stream[place : place + 1] for place in range(len(stream))]):
        written, relay = await relayed(*pieces)
        assert b"".join(written) == FRAME + FINISH + DONE
        assert relay.usage.output_tokens == 7


async def test_of_a_last_chunk_with_usage_that_nobody_ended_nothing_is_shown():
    written, relay = await relayed(FRAME, FINISH, ALONE.rstrip())

    assert b"".join(written) == FRAME + FINISH
    assert relay.usage.output_tokens == 7


async def test_part_of_a_token_is_passed_on_at_once_where_usage_is_hidden(caller):
    relay = make_relay(caller)
    relay.hides_usage = True
    relay.start(200, (("content-type", "text/event-stream"),))
    relay.write(FRAME)
    relay.write(FRAME[:-4])

    assert caller.written == [FRAME, FRAME[:-4]]
    relay.close()


async def test_where_usage_is_hidden_the_targets_key_still_never_leaves():
    frame = FRAME.replace(b'"a"', b'"%b"' % KEY.encode())
    written, _ = await relayed(FRAME, frame, frame[:50], frame[50:] + FINISH + ALONE, DONE, key=KEY)

    assert b"".join(written) == FRAME + 2 * frame.replace(KEY.encode(), b"***") + FINISH + DONE


TIMINGS = b'"timings":{"cache_n":3,"prompt_n":5,"predicted_n":40,"predicted_ms":100.0,"predicted_per_second":400.0}'


async def test_an_engines_own_count_is_the_usage_where_there_is_no_other():
    written, relay = await relayed(FRAME, FINISH.replace(b"}]}", b"}],%b}" % TIMINGS) + DONE, hides_usage=False)

    assert (relay.usage.input_tokens, relay.usage.cached_tokens, relay.usage.output_tokens) == (8, 3, 40)
    assert relay.timings.tokens_per_second == 400
    assert TIMINGS in b"".join(written)


async def test_an_engines_own_speed_is_read_from_a_whole_answer():
    relay = make_relay(Heading(), view=make_view({"messages": [{"role": "user", "content": "hi"}]}, Dialect.CHAT))
    relay.start(200, (("content-type", "application/json"),))
    relay.write(b'{"choices":[{"message":{"content":"hi"}}],%b}' % TIMINGS)
    relay.end()

    assert await relay.finished is None
    assert (relay.usage.output_tokens, relay.timings.tokens_per_second) == (40, 400)
