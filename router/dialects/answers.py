"""Answers in any dialect: stream ends, usage, and the status that an error stands for."""

import re
from collections.abc import Mapping

import orjson

from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.chat.answer import has_several_choices
from router.dialects.fields import as_object
from router.dialects.hosts import says_too_long
from router.dialects.sse import ChoicesTail, Frame, Tail
from router.dialects.table import SPECS

FIRST_TOKEN_MARKS: Mapping[Dialect, bytes] = {name: spec.first_token_mark for name, spec in SPECS.items()}

TELLING: Mapping[Dialect, re.Pattern[bytes]] = {name: spec.telling for name, spec in SPECS.items()}


_MAY_MEAN_SEVERAL = frozenset({"n", "prompt"})


def follow_stream(dialect: Dialect, request: JsonObject, *, measures: bool = True) -> Tail:
    if _MAY_MEAN_SEVERAL.isdisjoint(request) or not has_several_choices(request):
        return Tail(TELLING[dialect], measures=measures)
    return ChoicesTail(TELLING[dialect], measures=measures)


_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "credit_balance_exhausted": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "slow_down": 429,
    "server_is_overloaded": 503,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Hosts' names for failures, by the status that a refusal would have had."""


def read_failed_frame(dialect: Dialect, frame: Frame) -> tuple[int, JsonObject] | None:
    """The status and error of a failure event; None for any other event."""
    body = _read_object(frame.data)
    frame = Frame(frame.event, frame.data, body)
    if not SPECS[dialect].read_end([frame]).has_failed:
        return None
    found = body.get("error") or as_object(body.get("response")).get("error") or body
    error: JsonObject = found if isinstance(found, dict) else {"message": str(found)}
    return status_of(error), error


def _read_object(data: bytes) -> JsonObject:
    try:
        body: Json = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    if isinstance(body, list) and body:
        body = body[0]  # one host wraps its errors in a list
    return as_object(body)


def status_of(error: JsonObject) -> int:
    """The status that a refusal with this error would have had; 502 if it has no known name."""
    words = [str(error.get(name)) for name in ("code", "status", "type")]
    for word in words:
        if word.isascii() and word.isdigit() and 400 <= int(word[:4]) < 600:
            return int(word)
        if word in _STATUSES:
            return _STATUSES[word]
    return 400 if says_too_long(" ".join([*words, str(error.get("message"))])) else 502


def read_whole_answer(dialect: Dialect, raw: bytes) -> Usage | None:
    """The usage of a non-streamed answer. Raises ValueError if it is not an answer of this dialect."""
    body = orjson.loads(raw)
    if not isinstance(body, dict) or body.get("error"):
        raise ValueError("not an answer")
    return SPECS[dialect].read_answer(body)
