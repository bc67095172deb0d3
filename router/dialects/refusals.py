"""Errors in the caller's dialect: response bodies, and the last event of a failed stream."""

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from router.contract.allowance import Left
from router.contract.errors import (
    BudgetSpent,
    RateLimited,
    RequestError,
    TandemError,
    TooLong,
    Unauthorized,
    Unavailable,
    UpgradeRequired,
    UpstreamBarred,
    UpstreamError,
    UpstreamRefused,
    WrongMethod,
)
from router.contract.relay import Headers, Sink
from router.contract.request import JsonObject
from router.contract.words import Dialect
from router.dialects.error_bodies import find_told
from router.dialects.failures import read_failure
from router.dialects.fields import as_object
from router.dialects.headers import REQUEST_ID, id_headers
from router.dialects.table import SPECS

MAX_RETRY_AFTER_SECONDS = 60.0
"""Bounded because some SDKs sleep as long as they are told."""

_PLAIN_HTTP = (("upgrade", "HTTP/1.1"), ("connection", "upgrade"))
"""A 426 must name the protocol to use instead (RFC 9110, 15.5.22)."""


def refusal_body(error: TandemError, dialect: Dialect, request_id: str) -> bytes:
    words = failure_words(error, request_id)
    told = SPECS[dialect].write_refusal(error.status, words, error.code, error.param, request_id)
    if isinstance(error, BudgetSpent) and dialect is Dialect.RESPONSES:
        told = {**told, "error": {**as_object(told["error"]), **usage_limit(error)}}
    return orjson.dumps(told)


def usage_limit(error: TandemError) -> JsonObject:
    """The error type with which Codex reports at once when a budget resets.

    For any other 429 it silently waits out `retry-after`, which may be hours.
    """
    seconds = error.retry_after_seconds
    if not isinstance(error, BudgetSpent) or (seconds is not None and seconds < MAX_RETRY_AFTER_SECONDS):
        return {}
    return {"type": "usage_limit_reached", **({} if seconds is None else {"resets_at": math.ceil(time.time() + seconds)})}


def foreign_refusal(dialect: Dialect, status: int, message: str, code: str, param: str | None, request_id: str) -> bytes:
    """A target's refusal in another dialect."""
    message = in_callers_words(dialect, message, code)
    return orjson.dumps(SPECS[dialect].write_refusal(status, message, code, param or None, request_id))


def failure_refusal(dialect: Dialect, status: int, error: JsonObject, request_id: str) -> bytes:
    failure, param = read_failure(error), error.get("param")
    return foreign_refusal(
        dialect, status, failure.message, failure.code, param if isinstance(param, str) else None, request_id
    )


def in_callers_words(dialect: Dialect, message: str, code: str) -> str:
    """The message; for length, in the words on which clients of this dialect compact."""
    return SPECS[dialect].word_too_long(message) if code == TooLong.code else message


def limit_headers(left: Sequence[Left], dialect: Dialect) -> Headers:
    """A caller's own limits, under the names that its dialect's clients read."""
    header, write_reset = SPECS[dialect].limits
    return tuple(
        (header.format(kind=each.kind, figure=figure), value)
        for each in left
        for figure, value in (
            ("limit", str(each.limit)),
            ("remaining", str(each.remaining)),
            ("reset", write_reset(each.reset_seconds)),
        )
    )


def refusal_headers(error: TandemError) -> list[tuple[str, str]]:
    headers: list[tuple[str, str]] = []
    if isinstance(error, BudgetSpent) and (error.retry_after_seconds or MAX_RETRY_AFTER_SECONDS) >= MAX_RETRY_AFTER_SECONDS:
        # The true time, unbounded: the caller must come back another day, or never with this request.
        headers += [("retry-after", str(math.ceil(error.retry_after_seconds)))] if error.retry_after_seconds else []
        headers.append(("x-should-retry", "false"))
    elif error.status in (429, 503) or isinstance(error, Unavailable):
        seconds = 1.0 if error.retry_after_seconds is None else error.retry_after_seconds
        seconds = min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
        headers.append(("retry-after", str(max(1, math.ceil(seconds)))))
        headers.append(("retry-after-ms", str(round(max(seconds, 0.001) * 1000))))
    if error.status not in (408, 429) and _is_final(error):
        headers.append(("x-should-retry", "false"))
    if isinstance(error, Unauthorized):
        headers.append(("www-authenticate", "Bearer"))
    if isinstance(error, WrongMethod):
        headers.append(("allow", error.allowed))
    if isinstance(error, UpgradeRequired):
        headers += _PLAIN_HTTP
    return headers


def _is_final(error: TandemError) -> bool:
    """Whether SDK retries cannot help, or would multiply our own attempts."""
    if isinstance(error, (RequestError, UpstreamBarred)):
        return True
    return isinstance(error, UpstreamError) and (error.was_tried_again or passes_unchanged(error))


def failure_event(error: TandemError, dialect: Dialect, request_id: str) -> bytes:
    """The last event of a failed stream, in the target's words if these blame the request."""
    words, code = failure_words(error, request_id), error.code
    if isinstance(error, UpstreamRefused) and passes_unchanged(error):
        failure = read_failure(find_told(error.body))
        words, code = in_callers_words(dialect, failure.message, failure.code), failure.code
    return SPECS[dialect].write_failure(error.status, words, code, request_id)


def failure_words(error: TandemError, request_id: str) -> str:
    return f"{error.message.rstrip('.')}. (request {request_id})"


def passes_unchanged(error: TandemError) -> bool:
    return isinstance(error, UpstreamRefused) and (error.blames_the_request or error.as_sent is not None)


class Refusal(NamedTuple):
    status: int
    headers: Headers
    body: bytes


def write_refusal(error: TandemError, dialect: Dialect, request_id: str) -> Refusal:
    if isinstance(error, UpstreamRefused) and error.as_sent is not None:
        sent, named = error.as_sent, ((REQUEST_ID, request_id), ("x-tandem-target", error.target))
        return Refusal(sent.status, (*named, *sent.headers, ("content-length", str(len(sent.body))), *error.told), sent.body)
    more = (*id_headers(request_id), *refusal_headers(error), *error.told)
    if isinstance(error, RateLimited) and not error.told:
        more += limit_headers(error.left, dialect)
    if isinstance(error, UpstreamRefused) and passes_unchanged(error):
        body, kind = error.body, error.content_type
        more = (*more, ("x-tandem-target", error.target))
    else:
        body, kind = refusal_body(error, dialect, request_id), "application/json"
    headers = (("content-type", kind), ("content-length", str(len(body))), *more)
    return Refusal(error.status, headers, body)


def refuse_to(sink: Sink, error: TandemError, dialect: Dialect, request_id: str) -> None:
    """Send an error. Only valid before any byte went to the caller."""
    refusal = write_refusal(error, dialect, request_id)
    sink.start(refusal.status, refusal.headers)
    sink.write(refusal.body)
    sink.end()
