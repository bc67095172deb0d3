"""Errors as Anthropic's clients read them: a body, the last event of a stream, and the words for length."""

import re

from router.contract.errors import ThreadForgotten, ThreadMismatch, ThreadUnsupported
from router.contract.request import JsonObject
from router.dialects.composer import named_frame

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_DETAILED = frozenset({ThreadForgotten.code, ThreadMismatch.code, ThreadUnsupported.code})
"""Codes that this dialect's clients look for in `details`, and act on."""
_TOO_LONG = "prompt is too long"
_COUNT = re.compile(r"\d[\d,]{2,14}")
_MOST = re.compile(r"(?:maximum|limit|context size|n_ctx)\D{0,60}?(\d[\d,]{2,14})|> (\d[\d,]{2,14})")


def write_refusal(status: int, message: str, code: str, param: str | None, request_id: str) -> JsonObject:
    """The body of an error answer. This dialect has no place for the parameter."""
    kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    error: JsonObject = {"type": kind, "message": message, "code": code}
    if code in _DETAILED:
        error["details"] = {"error_code": code}
    return {"type": "error", "error": error, "request_id": request_id}


def write_failure(status: int, message: str, code: str, request_id: str) -> bytes:
    """The last event of a stream that failed."""
    return named_frame("error", write_refusal(status, message, code, None, request_id))


def word_too_long(message: str) -> str:
    """A refusal for length, in the form on which clients compact: they go by how its words begin."""
    return message if message.startswith(_TOO_LONG) else f"{_TOO_LONG}: {_numbers(message)}. {message}"


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
