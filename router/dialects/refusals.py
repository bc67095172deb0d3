"""Errors in the caller's dialect: whole bodies, and the last event of a stream that failed."""

import math
import re

import orjson

from router.contract.errors import RequestError, TandemError, TooLong, UpstreamError, UpstreamRefused
from router.contract.request import JsonObject
from router.contract.words import Dialect

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
LENGTH_MARKS = ("context_length_exceeded", "prompt is too long", "maximum context length", "exceed_context_size")
"""How hosts say that a prompt does not fit."""
_COUNTS = re.compile(r"\b\d[\d,]{3,}\b")
MOST_RETRY_AFTER_SECONDS = 60.0
"""Some SDKs really sleep as long as they are told, so what we tell is bounded."""


def refusal_body(error: TandemError, dialect: Dialect, request_id: str) -> bytes:
    """The body of an error answer."""
    message = f"{error.message.rstrip('.')}. (request {request_id})"
    return orjson.dumps(_refusal(dialect, error.status, message, error.code, error.param, request_id))


def _refusal(dialect: Dialect, status: int, message: str, code: str, param: str | None, request_id: str) -> JsonObject:
    if dialect is Dialect.MESSAGES:
        kind = _ANTHROPIC_TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message, "code": code}, "request_id": request_id}
    kind = _OPENAI_TYPES.get(status) or ("invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code, "request_id": request_id}}


def foreign_refusal(dialect: Dialect, status: int, message: str, code: str, param: str | None, request_id: str) -> bytes:
    """A target's refusal in another dialect. One for length gets the words on which clients compact."""
    if any(mark in code or mark in message for mark in LENGTH_MARKS):
        code = TooLong.code
        if dialect is Dialect.MESSAGES and not message.startswith("prompt is too long"):
            message = f"prompt is too long: {_numbers(message)}. {message}"
    return orjson.dumps(_refusal(dialect, status, message, code, param or None, request_id))


def _numbers(message: str) -> str:
    """The two counts that a refusal for length names, in the form that clients read."""
    counts = sorted({int(digits.replace(",", "")) for digits in _COUNTS.findall(message)})
    return f"{counts[-1]} tokens > {counts[0]} maximum" if len(counts) > 1 else "the target's window is smaller"


def refusal_headers(error: TandemError) -> list[tuple[str, str]]:
    """The headers that tell a client whether and when to come again."""
    headers: list[tuple[str, str]] = []
    if error.status in (429, 503):
        seconds = 1.0 if error.retry_after_seconds is None else error.retry_after_seconds
        seconds = min(max(seconds, 0.0), MOST_RETRY_AFTER_SECONDS)
        headers.append(("retry-after", str(max(1, math.ceil(seconds)))))
        headers.append(("retry-after-ms", str(round(max(seconds, 0.001) * 1000))))
    if isinstance(error, (UpstreamError, RequestError)) and error.status not in (408, 429):
        # Every target that may serve this was tried here already; the SDKs would multiply that by their own retries.
        headers.append(("x-should-retry", "false"))
    return headers


def failure_event(error: TandemError, dialect: Dialect, request_id: str) -> bytes:
    """The last event of a stream that failed after its first byte."""
    return foreign_failure(
        dialect, error.status, f"{error.message.rstrip('.')}. (request {request_id})", error.code, request_id
    )


_EMPTY_RESPONSE: JsonObject = {
    "object": "response",
    "created_at": 0,
    "status": "failed",
    "model": "",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "usage": None,
}
"""What typed clients look for in a response, also in one of which nothing is known but that it failed."""


def foreign_failure(dialect: Dialect, status: int, message: str, code: str, request_id: str) -> bytes:
    """The same, in the words of a target that speaks another dialect."""
    body = _refusal(dialect, status, message, code, None, request_id)
    match dialect:
        case Dialect.MESSAGES:
            return b"event: error\ndata: " + orjson.dumps(body) + b"\n\n"
        case Dialect.RESPONSES:
            failed: JsonObject = {
                "type": "response.failed",
                "sequence_number": 0,
                "response": {
                    **_EMPTY_RESPONSE,
                    "id": f"resp_{request_id.removeprefix('req_')}",
                    "error": {"code": code, "message": message},
                },
            }
            return b"event: response.failed\ndata: " + orjson.dumps(failed) + b"\n\n"
        case _:
            return b"data: " + orjson.dumps(body) + b"\n\n"


def passes_unchanged(error: TandemError) -> bool:
    """Whether the caller must see the target's own body, byte for byte."""
    return isinstance(error, UpstreamRefused) and error.blames_the_request
