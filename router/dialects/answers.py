"""What an answer says of itself, by dialect: how its stream ended, what it used, and what it wrote."""

from collections.abc import Callable

import orjson

from router.contract.entry import Usage
from router.contract.request import JsonObject
from router.contract.words import Dialect
from router.dialects import chat, messages, responses
from router.dialects.sse import Frame, StreamEnd

_ENDS: dict[Dialect, Callable[[list[Frame]], StreamEnd]] = {
    Dialect.CHAT: chat.read_end,
    Dialect.COMPLETIONS: chat.read_end,
    Dialect.RESPONSES: responses.read_end,
    Dialect.MESSAGES: messages.read_end,
}
_ANSWERS: dict[Dialect, Callable[[JsonObject], Usage | None]] = {
    Dialect.CHAT: chat.read_answer,
    Dialect.COMPLETIONS: chat.read_answer,
    Dialect.RESPONSES: responses.read_answer,
    Dialect.MESSAGES: messages.read_answer,
}
FIRST_TOKEN_MARKS: dict[Dialect, bytes] = {
    Dialect.CHAT: b'"delta"',
    Dialect.COMPLETIONS: b'"text"',
    Dialect.RESPONSES: b".delta",
    Dialect.MESSAGES: b"content_block_delta",
}
"""Bytes that no piece before the first token holds: the frames that open a stream are not the model's work."""


def read_stream_end(dialect: Dialect, frames: list[Frame]) -> StreamEnd:
    """How a stream ended, from its last frames."""
    return _ENDS[dialect](frames)


def read_whole_answer(dialect: Dialect, raw: bytes) -> Usage | None:
    """The usage of an answer that came in one piece; raises ValueError when it is no answer of this dialect."""
    body = orjson.loads(raw)
    if not isinstance(body, dict) or body.get("error"):
        raise ValueError("not an answer")
    return _ANSWERS[dialect](body)
