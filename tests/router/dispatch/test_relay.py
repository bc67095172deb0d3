"""One attempt's answer on its way: what is noted when, what never leaves, and what leaves its caller untouched."""

import asyncio

from router.contract.errors import UpstreamCut
from router.contract.facts import FirstByte, FirstToken
from router.contract.words import Dialect
from router.dispatch.opening import MAX_HELD_SECONDS
from tests.tools.loop_clock import jumping_clock
from tests.tools.relays import FRAME, Caller, Heading, headed, make_relay
from tests.tools.values import make_view


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
