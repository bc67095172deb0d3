"""Errors as OpenAI's clients read them: a body, and the last event of a stream. Shared by chat, responses and completions."""

from router.contract.request import JsonObject
from router.dialects.composer import data_frame

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def write_refusal(status: int, message: str, code: str, param: str | None, request_id: str) -> JsonObject:
    """The body of an error answer."""
    kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code, "request_id": request_id}}


def write_failure(status: int, message: str, code: str, request_id: str) -> bytes:
    """The last event of a stream that failed."""
    return data_frame(write_refusal(status, message, code, None, request_id))


def word_too_long(message: str) -> str:
    """A refusal for length: clients go by its code, so its words stay as they are."""
    return message
