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
_LENGTH_MARKS = (
    "context_length_exceeded",
    "prompt is too long",
    "prompt_too_long",
    "maximum context length",
    "exceed_context_size",
    "exceeds the available context size",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the maximum number of tokens",
)
"""How hosts say that a prompt does not fit."""
_LIMIT_IS_TOO_LARGE = re.compile(r"max_(?:completion_|output_)?tokens\W{0,3} (?:is|are) too large")
"""How they say that the answer's own limit does not, which a shorter prompt would not mend."""
_COUNT = re.compile(r"\d[\d,]{2,14}")
_MOST = re.compile(r"(?:maximum|limit|context size|n_ctx)\D{0,60}?(\d[\d,]{2,14})|> (\d[\d,]{2,14})")
MAX_RETRY_AFTER_SECONDS = 60.0
"""Some SDKs really sleep as long as they are told, so what we tell is bounded."""


def refusal_body(error: TandemError, dialect: Dialect, request_id: str) -> bytes:
    """The body of an error answer."""
    return orjson.dumps(_refusal(dialect, error.status, failure_words(error, request_id), error.code, error.param, request_id))


def _refusal(dialect: Dialect, status: int, message: str, code: str, param: str | None, request_id: str) -> JsonObject:
    if dialect is Dialect.MESSAGES:
        kind = _ANTHROPIC_TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message, "code": code}, "request_id": request_id}
    kind = _OPENAI_TYPES.get(status) or ("invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code, "request_id": request_id}}


def foreign_refusal(dialect: Dialect, status: int, message: str, code: str, param: str | None, request_id: str) -> bytes:
    """A target's refusal in another dialect. One for length gets the words on which clients compact."""
    message = in_callers_words(dialect, message, code)
    return orjson.dumps(_refusal(dialect, status, message, code, param or None, request_id))


def says_too_long(words: str) -> bool:
    """Whether a host's error means that the prompt does not fit. `words` are its type, code and message together."""
    words = words.lower()
    return any(mark in words for mark in _LENGTH_MARKS) and _LIMIT_IS_TOO_LARGE.search(words) is None


def in_callers_words(dialect: Dialect, message: str, code: str) -> str:
    """An error's message; one for length in the form on which clients of this dialect compact."""
    if code != TooLong.code or dialect is not Dialect.MESSAGES or message.startswith("prompt is too long"):
        return message
    return f"prompt is too long: {_numbers(message)}. {message}"


def _numbers(message: str) -> str:
    """The two counts that a refusal for length names, in the form that clients read."""
    found = _MOST.search(message)
    if found is not None:
        most = _number(found[1] or found[2])
        asked = max(map(_number, _COUNT.findall(message)))
        if asked > most:
            return f"{asked} tokens > {most} maximum"
    return "the target's window is smaller"


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def refusal_headers(error: TandemError) -> list[tuple[str, str]]:
    """The headers that tell a client whether and when to come again."""
    headers: list[tuple[str, str]] = []
    if error.status in (429, 503):
        seconds = 1.0 if error.retry_after_seconds is None else error.retry_after_seconds
        seconds = min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
        headers.append(("retry-after", str(max(1, math.ceil(seconds)))))
        headers.append(("retry-after-ms", str(round(max(seconds, 0.001) * 1000))))
    if isinstance(error, (UpstreamError, RequestError)) and error.status not in (408, 429):
        # Every target that may serve this was tried here already; the SDKs would multiply that by their own retries.
        headers.append(("x-should-retry", "false"))
    return headers


def failure_event(error: TandemError, dialect: Dialect, request_id: str) -> bytes:
    """The last event of a stream that failed after its first byte."""
    return stream_failure(dialect, error.status, failure_words(error, request_id), error.code, request_id)


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


def failure_words(error: TandemError, request_id: str) -> str:
    """What a caller is told of it."""
    return f"{error.message.rstrip('.')}. (request {request_id})"


def stream_failure(dialect: Dialect, status: int, message: str, code: str, request_id: str) -> bytes:
    """The same, in words that are given."""
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
