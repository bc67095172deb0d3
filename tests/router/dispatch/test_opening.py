"""The first bytes of a stream: what is held back, for how long, and what is a refusal."""

import asyncio

import pytest

from router.contract.words import Dialect
from router.dispatch.opening import MAX_HELD_BYTES, MAX_HELD_EVENTS, MAX_HELD_SECONDS, Opening, begins_well, whole_frames

pytestmark = pytest.mark.jumping_clock

COMMENT = b": OPENROUTER PROCESSING\n\n"
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
ERROR = b'data: {"error":{"message":"Provider returned error","code":502}}\n\n'


class Held:
    """An opening, and what came of it."""

    def __init__(self, dialect: Dialect = Dialect.CHAT) -> None:
        self.finished = asyncio.get_running_loop().create_future()
        self.passed, self.refused = [], []
        self.opening = Opening(dialect, self.finished, self.passed.append, lambda *given: self.refused.append(given))

    def add(self, *pieces: bytes) -> "Held":
        for piece in pieces:
            self.opening.add(piece)
        return self


@pytest.mark.parametrize(
    ("piece", "is_plain"),
    [
        (TOKEN, True),
        (b'event: content_block_start\ndata: {"type":"content_block_start"}\n\n', True),
        (TOKEN.replace(b"\n", b"\r\n"), True),
        (TOKEN[:-1], False),
        (COMMENT, False),
        (COMMENT + TOKEN, False),
        (ERROR, False),
        (b'event: ping\ndata: {"type":"ping"}\n\n', False),
        (b'event: response.failed\ndata: {"type":"response.failed"}\n\n', False),
        (b'event: message_start\ndata: {"type":"message_start"}\n\n', False),
        (b'data: {"type":"response.created","response":{}}\n\n', False),
        (b'event: codex.rate_limits\ndata: {"type":"codex.rate_limits"}\n\n', False),
        (b"", False),
    ],
)
def test_only_a_whole_first_event_without_a_doubt_is_plainly_an_answer(piece, is_plain):
    assert begins_well(piece) is is_plain


def test_frames_are_whole_up_to_the_last_end():
    assert whole_frames(TOKEN + b"data: {") == TOKEN
    assert whole_frames(b"data: {") == b""
    assert whole_frames(b"data: 1\r\rdata: 2") == b"data: 1\r\r"


async def test_comments_and_pings_are_held_until_the_first_event():
    held = Held().add(COMMENT, COMMENT)
    assert held.passed == []

    held.add(TOKEN)

    assert held.passed == [COMMENT + COMMENT + TOKEN]
    assert held.refused == []


PROMISES = {
    Dialect.MESSAGES: (
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b'event: message_start\ndata: {"type":"message_start","message":{}}\n\n',
    ),
    Dialect.RESPONSES: (
        b'event: response.created\ndata: {"type":"response.created","response":{}}\n\n',
        b'data: {"type":"response.in_progress","response":{}}\n\n',
    ),
}
WORDS = {
    Dialect.MESSAGES: b'event: content_block_start\ndata: {"type":"content_block_start"}\n\n',
    Dialect.RESPONSES: b'data: {"type":"response.output_item.added","item":{}}\n\n',
}


@pytest.mark.parametrize("dialect", list(PROMISES))
async def test_events_that_come_before_the_model_are_held_until_it_begins(dialect):
    held = Held(dialect).add(*PROMISES[dialect])
    assert held.passed == []
    assert held.add(WORDS[dialect]).passed == [b"".join(PROMISES[dialect]) + WORDS[dialect]]


async def test_no_more_than_so_many_events_are_held():
    promise = PROMISES[Dialect.RESPONSES][1]
    held = Held(Dialect.RESPONSES).add(*[promise] * MAX_HELD_EVENTS)
    assert held.passed == []
    assert held.add(promise).passed == [promise * (MAX_HELD_EVENTS + 1)]


@pytest.mark.parametrize(
    ("dialect", "frame", "status", "message"),
    [
        (Dialect.CHAT, ERROR, 502, "Provider returned error"),
        (Dialect.CHAT, b'data: {"error":{"message":"no","type":"rate_limit_error"}}\n\n', 429, "no"),
        (Dialect.CHAT, b'data: {"error":"boom"}\n\n', 502, "boom"),
        (Dialect.CHAT, b'data: [{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}]\n\n', 503, "busy"),
        (
            Dialect.MESSAGES,
            b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
            529,
            "Overloaded",
        ),
        (Dialect.RESPONSES, b'data: {"type":"error","code":"server_is_overloaded","message":"later"}\n\n', 503, "later"),
        (Dialect.RESPONSES, b'data: {"type":"error","code":"slow_down","message":"slow"}\n\n', 429, "slow"),
        (Dialect.RESPONSES, b'data: {"type":"error","code":"rate_limit_exceeded","message":"slow"}\n\n', 429, "slow"),
        (
            Dialect.RESPONSES,
            b'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}\n\n',
            502,
            "x",
        ),
        (Dialect.CHAT, b'data: {"error":{"message":"maximum context length is 9 tokens"}}\n\n', 400, None),
    ],
)
@pytest.mark.parametrize("before", ["nothing", "a comment", "a promise"])
async def test_an_error_before_the_model_begins_is_a_refusal_with_the_status_that_it_names(
    dialect, frame, status, message, before
):
    pieces = {"nothing": (), "a comment": (COMMENT,), "a promise": PROMISES.get(dialect, ())}[before]
    held = Held(dialect).add(*pieces, frame)

    assert held.passed == []
    ((found, error, told),) = held.refused
    assert told == b"".join((*pieces, frame))
    assert found == status
    assert message is None or error["message"] == message


async def test_words_of_a_model_that_speak_of_errors_are_an_answer():
    words = b'data: {"choices":[{"delta":{"content":"the \\"error\\": x, ping"}}],"error":null}\n\n'

    assert Held().add(words).passed == [words]


async def test_a_first_event_that_comes_byte_by_byte_is_passed_on_when_it_is_whole():
    held = Held().add(*[TOKEN[place : place + 1] for place in range(len(TOKEN) - 1)])
    assert held.passed == []
    assert held.add(TOKEN[-1:]).passed == [TOKEN]


async def test_nothing_is_held_for_longer_than_its_time():
    held = Held().add(COMMENT)

    await asyncio.sleep(MAX_HELD_SECONDS - 0.1)
    assert held.passed == []
    await asyncio.sleep(0.2)

    assert held.passed == [COMMENT]


async def test_no_more_is_held_than_its_bytes():
    long = b"data: " + b"x" * MAX_HELD_BYTES

    assert Held().add(long).passed == [long]


async def test_a_last_event_that_nobody_ended_is_one_when_the_stream_is_over():
    held, bad, empty = Held().add(TOKEN[:-2]), Held().add(ERROR[:-1]), Held().add(COMMENT)
    for one in (held, bad, empty):
        one.opening.end()

    assert (held.passed, held.refused) == ([TOKEN[:-2]], [])
    assert (bad.passed, len(bad.refused)) == ([], 1)
    assert (empty.passed, empty.refused) == ([], [])


async def test_when_nobody_waits_any_more_nothing_is_passed_on():
    held = Held().add(COMMENT)
    held.finished.cancel()

    await asyncio.sleep(2 * MAX_HELD_SECONDS)

    assert held.passed == []
