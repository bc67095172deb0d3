"""Errors in the caller's dialect: whole bodies, and the last event of a stream that failed."""

import math

import orjson

from router.contract.errors import RequestError, TandemError, UpstreamError, UpstreamRefused
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
MOST_RETRY_AFTER_SECONDS = 60.0
"""Some SDKs really sleep as long as they are told, so what we tell is bounded."""


def refusal_body(error: TandemError, dialect: Dialect, request_id: str) -> bytes:
    """The body of an error answer."""
    return orjson.dumps(_refusal(error, dialect, request_id))


def _refusal(error: TandemError, dialect: Dialect, request_id: str) -> JsonObject:
    message = f"{error.message.rstrip('.')}. (request {request_id})"
    if dialect is Dialect.MESSAGES:
        kind = _ANTHROPIC_TYPES.get(error.status) or ("invalid_request_error" if error.status < 500 else "api_error")
        return {
            "type": "error",
            "error": {"type": kind, "message": message, "code": error.code},
            "request_id": request_id,
        }
    kind = _OPENAI_TYPES.get(error.status) or ("invalid_request_error" if error.status < 500 else "server_error")
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": error.param,
            "code": error.code,
            "request_id": request_id,
        }
    }


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
    body = _refusal(error, dialect, request_id)
    match dialect:
        case Dialect.MESSAGES:
            return b"event: error\ndata: " + orjson.dumps(body) + b"\n\n"
        case Dialect.RESPONSES:
            detail = body["error"]
            failed: JsonObject = {
                "type": "response.failed",
                "sequence_number": 0,
                "response": {
                    "id": f"resp_{request_id}",
                    "object": "response",
                    "status": "failed",
                    "output": [],
                    "error": {"code": error.code, "message": detail["message"] if isinstance(detail, dict) else ""},
                },
            }
            return b"event: response.failed\ndata: " + orjson.dumps(failed) + b"\n\n"
        case _:
            return b"data: " + orjson.dumps(body) + b"\n\n"


def passes_unchanged(error: TandemError) -> bool:
    """Whether the caller must see the target's own body, byte for byte."""
    return isinstance(error, UpstreamRefused) and error.blames_the_request
