"""Streams that are left at any moment are counted as their targets would have: 1 to 60 words a piece, three dialects."""

import random

import orjson
import pytest

from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dispatch.meter import TokenSize
from tests.router.dispatch.relays import Caller, headed
from tests.tools.values import make_view

WORDS = 'let the loop return early if `items` is empty, else sort() them by "name";\n\t0x1F größer 漢字'.split(" ")
LEAST, MOST = 1, 60
STREAMS, WHOLE = 200, 40
BODIES = {
    Dialect.CHAT: {"messages": [{"role": "user", "content": "hi"}], "stream": True},
    Dialect.RESPONSES: {"input": "hi", "stream": True},
    Dialect.MESSAGES: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "stream": True},
}


def chat(text: str, number: int, kind: int) -> bytes:
    call = {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
    delta = ({"content": text}, {"reasoning_content": text}, call)[kind]
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    return b"data: " + orjson.dumps({"id": "chatcmpl-1", "created": 1790000000, "choices": [choice]}) + b"\n\n"


def responses(text: str, number: int, kind: int) -> bytes:
    name = "response." + ("output_text", "reasoning_text", "function_call_arguments")[kind] + ".delta"
    body = {"type": name, "sequence_number": number, "item_id": "msg_0123456789", "output_index": kind, "delta": text}
    return f"event: {name}\ndata: ".encode() + orjson.dumps(body) + b"\n\n"


def messages(text: str, number: int, kind: int) -> bytes:
    name, field = (("text_delta", "text"), ("thinking_delta", "thinking"), ("input_json_delta", "partial_json"))[kind]
    body = {"type": "content_block_delta", "index": kind, "delta": {"type": name, field: text}}
    return b"event: content_block_delta\ndata: " + orjson.dumps(body) + b"\n\n"


WRITERS = {Dialect.CHAT: chat, Dialect.RESPONSES: responses, Dialect.MESSAGES: messages}


def stream_of(dialect: Dialect, chance: random.Random) -> tuple[list[bytes], int]:
    """The pieces of a stream that is left at some moment, and its words: a word is a token. A thought, the answer, a call."""
    pieces: list[bytes] = []
    written, most = 0, chance.choice([1, 5, MOST])
    for kind in (1, 0, 2):
        said: list[str] = []
        for _ in range(chance.randint(1, 300)):
            words = chance.choices(WORDS, k=chance.randint(LEAST, most))
            pieces.append(WRITERS[dialect](" ".join(words) + " ", len(pieces), kind))
            written += len(words)
            said += words
        if dialect is Dialect.RESPONSES:  # what is done is repeated whole
            done = {"type": "response.output_item.done", "item": {"content": [{"text": " ".join(said)}]}}
            pieces += [b"event: response.output_item.done\ndata: " + orjson.dumps(done) + b"\n\n"] * 2
    return pieces, written


@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize("cuts_frames", [False, True], ids=["whole frames", "cut anywhere"])
async def test_streams_that_are_left_are_counted_within_five_percent(dialect, cuts_frames):
    chance = random.Random(90)
    size, true, counted, worst = TokenSize(), 0, 0, 0.0
    for turn in range(WHOLE + STREAMS):
        pieces, words = stream_of(dialect, chance)
        relay = headed(Caller(), view=make_view(BODIES[dialect], dialect))
        for piece in pieces:
            at = chance.randrange(1, len(piece)) if cuts_frames else len(piece)
            relay.write(piece[:at])
            if at < len(piece):
                relay.write(piece[at:])
        relay.close()
        if turn < WHOLE:
            size.learn(relay.written_bytes, Usage(1, words))
            continue
        tokens = size.tokens_in(relay.written_bytes)
        true, counted, worst = true + words, counted + tokens, max(worst, abs(tokens / words - 1))

    assert counted == pytest.approx(true, rel=0.05)
    assert worst < 0.2


def test_a_token_has_four_bytes_until_whole_streams_tell():
    size = TokenSize()
    assert size.tokens_in(400) == 100

    for _ in range(20):
        size.learn(3_000, Usage(1, 1_000))
    assert size.tokens_in(300) == pytest.approx(100, abs=1)


def test_reasoning_that_was_not_shown_makes_no_token_small():
    size = TokenSize()
    for _ in range(20):
        size.learn(400, Usage(1, 1_000, reasoning_tokens=900))

    assert size.tokens_in(400) == 100


def test_of_many_streams_one_in_sixteen_is_read():
    size = TokenSize()

    assert sum(size.is_due() for _ in range(176)) == 26
