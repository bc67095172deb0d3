"""An answer, whatever its dialect: how its stream ended, what it used, and how one is written."""

import re
from collections.abc import Mapping

import orjson

from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.composer import Answer, Composer
from router.dialects.sse import Frame, StreamEnd
from router.dialects.table import SPECS

FIRST_TOKEN_MARKS: Mapping[Dialect, bytes] = {name: spec.first_token_mark for name, spec in SPECS.items()}
"""Bytes that no piece before the first token holds: the frames that open a stream are not the model's work."""

TELLING: Mapping[Dialect, re.Pattern[bytes]] = {name: spec.telling for name, spec in SPECS.items()}
"""What is found in every frame that tells how a stream ended."""


def read_stream_end(dialect: Dialect, frames: list[Frame]) -> StreamEnd:
    """How a stream ended, from its telling frames."""
    return SPECS[dialect].read_end(frames)


def read_whole_answer(dialect: Dialect, raw: bytes) -> Usage | None:
    """The usage of an answer that came in one piece; raises ValueError when it is not an answer of this dialect."""
    body = orjson.loads(raw)
    if not isinstance(body, dict) or body.get("error"):
        raise ValueError("not an answer")
    return SPECS[dialect].read_answer(body)


def compose(dialect: Dialect, answer: Answer) -> Composer:
    """The composer of a dialect."""
    return SPECS[dialect].composer(answer)
