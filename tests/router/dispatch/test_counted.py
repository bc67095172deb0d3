"""Streams that are left at any moment are counted as their targets would have: 1 to 60 words a piece, three dialects, bridges."""

import json
import random
import string

import orjson
import pytest

from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.sse import count_written
from router.dispatch.meter import TokenSize
from router.dispatch.relay import Relay
from router.dispatch.translating import TranslatingSink
from tests.router.dispatch.relays import Caller, make_relay
from tests.tools.bridging import REQUESTS, answer_to
from tests.tools.values import make_view

WORDS = 'let the loop return early if `items` is empty, else sort() them by "name";\n\t0x1F größer 漢字'.split(" ")
LEAST, MOST = 1, 60
STREAMS, WHOLE = 60, 40
BRIDGED, BRIDGED_WHOLE = 25, 16
"""Fewer: a bridge reads every frame, and estimates nothing."""
HEAD = (("content-type", "text/event-stream"),)
KINDS = (1, 0, 2)
"""A thought, the answer, a call."""


def frame(body: dict, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + orjson.dumps(body) + b"\n\n"


def chat(text: str, number: int, kind: int, padding: dict) -> bytes:
    call = {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
    delta = ({"content": text}, {"content": "", "reasoning_content": text}, call)[kind]
    if padding and kind == 1:  # two spellings of one thought, as hosts write them for all their clients
        delta |= {"reasoning": text, "reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0}]}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    usage = {"usage": {"prompt_tokens": 12, "completion_tokens": number, "total_tokens": number + 12}} if padding else {}
    return frame({"id": "chatcmpl-1", "created": 1790000000, "choices": [choice], **usage, **padding})


def responses(text: str, number: int, kind: int, padding: dict) -> bytes:
    name = "response." + ("output_text", "reasoning_text", "function_call_arguments")[kind] + ".delta"
    body = {"type": name, "sequence_number": number, "item_id": "msg_0123456789", "output_index": kind, "delta": text}
    return frame({**body, **padding}, name)


def messages(text: str, number: int, kind: int, padding: dict) -> bytes:
    name, field = (("text_delta", "text"), ("thinking_delta", "thinking"), ("input_json_delta", "partial_json"))[kind]
    body = {"type": "content_block_delta", "index": kind, "delta": {"type": name, field: text}, **padding}
    return frame(body, "content_block_delta")


WRITERS = {Dialect.CHAT: chat, Dialect.RESPONSES: responses, Dialect.MESSAGES: messages}


def begin(dialect: Dialect, kind: int) -> bytes:
    if dialect is Dialect.RESPONSES:
        item = {"type": ("message", "reasoning", "function_call")[kind], "id": f"item_{kind}", "call_id": "c", "name": "look"}
        return frame({"type": "response.output_item.added", "output_index": kind, "item": item}, "response.output_item.added")
    if dialect is Dialect.MESSAGES:
        kinds = (
            {"type": "text", "text": ""},
            {"type": "thinking", "thinking": ""},
            {"type": "tool_use", "id": "c", "name": "look"},
        )
        return frame({"type": "content_block_start", "index": kind, "content_block": kinds[kind]}, "content_block_start")
    call = [{"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}]
    return frame({"choices": [{"index": 0, "delta": {"role": "assistant", **({"tool_calls": call} if kind == 2 else {})}}]})


def end(dialect: Dialect, kind: int, said: str) -> list[bytes]:
    """Responses repeat whole what is done."""
    if dialect is Dialect.MESSAGES:
        return [frame({"type": "content_block_stop", "index": kind}, "content_block_stop")]
    if dialect is Dialect.CHAT:
        return []
    item = (
        {"type": "message", "content": [{"type": "output_text", "text": said}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": said}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": said},
    )[kind]
    names = ("response.content_part.done", "response.output_item.done")
    return [frame({"type": name, "output_index": kind, "item": item}, name) for name in names]


def silence(dialect: Dialect, kind: int, number: int) -> bytes:
    """What a host sends that is not text: a comment, a ping, a piece without a word."""
    if number % 3 == 0:
        return b": PROCESSING\n\n"
    if number % 3 == 1 and dialect is Dialect.MESSAGES:
        return frame({"type": "ping"}, "ping")
    return WRITERS[dialect]("", number, kind, {})


def stream_of(dialect: Dialect, chance: random.Random, *, is_padded: bool) -> tuple[list[bytes], int]:
    """The pieces of a stream that is left at some moment, and its words: a word is a token."""
    pieces: list[bytes] = []
    written, most = 0, chance.choice([1, 5, MOST])
    for kind in KINDS:
        pieces.append(begin(dialect, kind))
        said: list[str] = []
        for _ in range(chance.randint(1, 100)):
            words, padding = chance.choices(WORDS, k=chance.randint(LEAST, most)), {}
            if is_padded:
                padding = {"obfuscation": "".join(chance.choices(string.ascii_letters, k=chance.randint(1, 40)))}
                if chance.random() < 0.2:
                    pieces.append(silence(dialect, kind, len(pieces)))
            pieces.append(WRITERS[dialect](" ".join(words) + " ", len(pieces), kind, padding))
            written += len(words)
            said += words
        pieces += end(dialect, kind, " ".join(said))
    return pieces, written


def listen(caller: Dialect, target: Dialect) -> tuple[Relay, "Relay | TranslatingSink"]:
    """A relay, and what its target writes into."""
    view = make_view({**REQUESTS[caller], "stream": True}, caller)
    if caller is target:
        relay = make_relay(Caller(), view=view)
        relay.start(200, HEAD)
        return relay, relay
    answer = answer_to(caller, target, stream=True)
    relay = make_relay(Caller(), view=view, translator=answer)
    room = 1 << 24
    sink = TranslatingSink(answer, relay, relay.finished, target="t", dialect=target, is_streaming=True, max_bytes=room)
    sink.start(200, HEAD)
    return relay, sink


@pytest.mark.parametrize("is_padded", [False, True], ids=["plain", "padded"])
@pytest.mark.parametrize("target", WRITERS)
@pytest.mark.parametrize("caller", WRITERS)
@pytest.mark.parametrize("cuts_frames", [False, True], ids=["whole frames", "cut anywhere"])
async def test_streams_that_are_left_are_counted_within_five_percent(caller, target, cuts_frames, is_padded):
    chance = random.Random(90)
    size, true, counted, worst = TokenSize(), 0, 0, 0.0
    streams, whole = (STREAMS, WHOLE) if caller is target else (BRIDGED, BRIDGED_WHOLE)
    for turn in range(whole + streams):
        pieces, words = stream_of(target, chance, is_padded=is_padded)
        relay, sink = listen(caller, target)
        for piece in pieces:
            at = chance.randrange(1, len(piece)) if cuts_frames else len(piece)
            sink.write(piece[:at])
            if at < len(piece):
                sink.write(piece[at:])
        assert not relay.is_over
        relay.close()
        if turn < whole:
            size.learn(relay.written_bytes, Usage(1, words))
            continue
        tokens = size.tokens_in(relay.written_bytes)
        true, counted, worst = true + words, counted + tokens, max(worst, abs(tokens / words - 1))

    assert counted == pytest.approx(true, rel=0.05)
    assert worst < 0.2


@pytest.mark.parametrize("escapes", [False, True], ids=["as it is", "escaped"])
def test_a_host_that_escapes_its_text_is_counted_like_a_bridge(escapes):
    text = 'größer 漢字 "name"\n\t' * 50
    line = json.dumps({"choices": [{"delta": {"content": text}}]}, ensure_ascii=escapes, separators=(",", ":")).encode()
    answer = answer_to(Dialect.MESSAGES, Dialect.CHAT, stream=True)
    answer.feed(written := b"data: " + line + b"\n\n")

    assert count_written(written) == pytest.approx(answer.written_bytes, rel=0.05)


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
