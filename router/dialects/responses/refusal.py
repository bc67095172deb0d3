"""The last event of a Responses stream that failed. Whole bodies are those of chat."""

from router.contract.request import JsonObject
from router.dialects.composer import named_frame
from router.dialects.responses.said_back import say_back

_EMPTY_RESPONSE: JsonObject = {
    "object": "response",
    "created_at": 0,
    "completed_at": None,
    "status": "failed",
    "model": "",
    "output": [],
    "incomplete_details": None,
    **say_back({}),
    "usage": None,
}
"""What typed clients look for in a response, also in one of which nothing is known but that it failed."""


def write_failure(status: int, message: str, code: str, request_id: str) -> bytes:
    """The last event of a stream that failed."""
    error: JsonObject = {"code": code, "message": message}
    response: JsonObject = {**_EMPTY_RESPONSE, "id": f"resp_{request_id.removeprefix('req_')}", "error": error}
    return named_frame("response.failed", {"type": "response.failed", "sequence_number": 0, "response": response})
