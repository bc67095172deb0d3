"""Usage that the caller did not ask for: requested from the target, and removed from its stream.

Hosts send it in one more chunk, without choices; some also write `"usage":null` into all others. llama.cpp moves its `timings`
into that chunk: they are passed on, since a caller that asks for nothing gets them too.
"""

import re
from collections.abc import Mapping

from router.contract.request import JsonObject, RequestView
from router.contract.words import Dialect
from router.dialects.hosts import STREAM_OPTIONS
from router.dialects.sse import FRAME_ENDS, data_frame, split_frames
from router.dialects.table import SPECS
from router.dialects.timings import MARK

USAGE_MARK = b'"usage"'
"""In every piece to change. Inside a JSON string the second quote would be escaped."""
ASKING: Mapping[Dialect, JsonObject] = {
    name: {STREAM_OPTIONS: spec.stream_fields[STREAM_OPTIONS]}
    for name, spec in SPECS.items()
    if STREAM_OPTIONS in spec.stream_fields
}
_INCLUDE = "include_usage"
_NO_FIELD: JsonObject = {}
_NULL = re.compile(rb',\s*"usage"\s*:\s*null(?=\s*[,}])')
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_FRAME_END = re.compile(rb"(\r\n\r\n|\n\n|\r\r)")
_MAX_CHUNK_BYTES = 8_192
"""Chunks with usage alone are shorter."""


def ask(view: RequestView) -> JsonObject:
    """The field that asks for usage; empty if the caller already asks or there is none."""
    field = ASKING.get(view.dialect)
    if field is None:
        return _NO_FIELD
    options = view.body.get(STREAM_OPTIONS)
    if options is None:
        return field
    if not isinstance(options, dict) or options.get(_INCLUDE) is True:
        return _NO_FIELD
    return {STREAM_OPTIONS: {**options, _INCLUDE: True}}


def without_usage(data: bytes) -> bytes:
    """Partial frames are left alone."""
    data = _NULL.sub(b"", data)
    if data.rfind(USAGE_MARK) < 0 or _NO_CHOICES.search(data) is None:  # some hosts send it with every token
        return data
    *parts, rest = _FRAME_END.split(data)
    kept: list[bytes] = []
    for frame, end in zip(parts[::2], parts[1::2], strict=True):
        if USAGE_MARK in frame and is_usage_alone(frame):
            kept.append(frame[: len(frame) - len(frame.lstrip(b"\r\n"))])  # the end of the frame before it
            if MARK in frame:
                kept.append(_write_timings(frame))
        else:
            kept += (frame, end)
    return b"".join((*kept, rest))


def is_usage_alone(frame: bytes) -> bool:
    """Whether a frame is the chunk that only callers who ask for usage get."""
    chunk = frames[0].json() if (frames := split_frames(frame)) else {}
    return chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)


def _write_timings(frame: bytes) -> bytes:
    """The chunk with an empty piece in place of usage: without choices, it would surprise callers that did not ask."""
    chunk: JsonObject = {**split_frames(frame)[0].json(), "choices": [{"index": 0, "delta": {}, "finish_reason": None}]}
    del chunk["usage"]
    return data_frame(chunk)


def usage_may_begin(data: bytes, first_token_mark: bytes) -> int:
    """Where an unfinished frame that may be usage alone begins, or the length of `data`."""
    begin = max((place + len(end) for end in FRAME_ENDS if (place := data.rfind(end)) >= 0), default=0)
    frame = data[begin:].lstrip(b"\r\n")
    may_be = frame.startswith(b"data:"[: len(frame)]) and len(frame) <= _MAX_CHUNK_BYTES and first_token_mark not in frame
    return len(data) - len(frame) if may_be else len(data)
