"""Requests with `background: true`, and their responses before and after the stream."""

import hashlib

import orjson
from msgspec.structs import replace

from router.contract.digits import as_written, parse_exactly
from router.contract.errors import (
    BadRequest,
    RateLimited,
    StoreUnavailable,
    TandemError,
    TiersBusy,
    UpstreamCut,
    UpstreamLoading,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.exchange import Arrival
from router.contract.job import Job
from router.contract.request import JsonObject
from router.contract.words import Dialect, Operation
from router.dialects.error_bodies import find_told
from router.dialects.fields import as_object, as_text, read_stream
from router.dialects.json_body import parse_body
from router.dialects.splice import replace_fields

_TIME_DIGITS = 11
"""Leading digits of an id that are its time."""
_BROKEN_OFF = frozenset({UpstreamUnreachable.code, UpstreamTimeout.code, UpstreamCut.code})
_FOR_NOW = frozenset({TiersBusy.code, RateLimited.code, StoreUnavailable.code, UpstreamLoading.code})


class AskedBackground:
    """A background request as sent, and as served, which is always streamed."""

    __slots__ = ("arrival", "body", "is_streaming")

    def __init__(self, arrival: Arrival) -> None:
        """Raises `BadRequest` for fields that exclude `background`."""
        self.body = body = parse_body(arrival.raw)
        self.is_streaming = read_stream(body)
        if body.get("store") is False:
            raise BadRequest("background: needs a stored response. Leave store out, or set it to true", param="store")
        if "n" in body:
            raise BadRequest("n: not a field of this API. Send one request for each answer", param="n")
        raw = replace_fields(arrival.raw, body, {"background": None, "stream": True})
        self.arrival = replace(arrival, raw=raw)

    def write_queued(self, job_id: str, created: int) -> JsonObject:
        from router.dialects.composer import Answer
        from router.dialects.responses.compose import ResponsesComposer

        model = as_text(self.body.get("model"))
        whole = ResponsesComposer(Answer(job_id.removeprefix("resp_"), model, created, asked=self.body)).whole()
        return {**whole, "status": "queued"}


def job_id_of(request_id: str) -> str:
    return f"resp_{request_id.removeprefix('req_')}"


def request_id_of(job_id: str, attempt: int = 1) -> str:
    """The request id of an attempt; the first has that of the accepted request.

    It is derived, so that all who record an attempt use one id.
    """
    own = job_id.removeprefix("resp_")
    if attempt > 1:
        noise = hashlib.sha256(f"{job_id} {attempt}".encode()).hexdigest()
        own = own[:_TIME_DIGITS] + noise[: len(own) - _TIME_DIGITS]
    return f"req_{own}"


def write_arrival(job: Job, request_id: str) -> Arrival:
    return Arrival(request_id, Dialect.RESPONSES, Operation.CREATE, job.headers, job.body, job.caller, job.key, job=job.id)


def with_status(response: bytes, status: str, **more: object) -> bytes:
    return orjson.dumps({**as_object(parse_exactly(response)), "status": status, **more}, default=as_written)


def is_busy(refusal: bytes) -> bool:
    """Whether the router refused, and only temporarily."""
    return _code_of(refusal) in _FOR_NOW


def is_broken_off(refusal: bytes, error: TandemError | None) -> bool:
    """Whether a request ended because the connection to its target did, or the target was silent for too long."""
    return (_code_of(refusal) if error is None else error.code) in _BROKEN_OFF


def _code_of(refusal: bytes) -> str:
    return as_text(as_object(find_told(refusal)).get("code")) if refusal else ""
