"""Requests with `background: true`: what a job keeps of one, and the response as it is before and after its stream."""

import hashlib

import orjson
from msgspec.structs import replace

from router.contract.digits import as_written, parse_exactly
from router.contract.errors import BadRequest, RateLimited, StoreUnavailable, TiersBusy, UpstreamLoading
from router.contract.exchange import Arrival
from router.contract.job import Job
from router.contract.request import JsonObject
from router.contract.words import Dialect, Operation
from router.dialects.composer import Answer
from router.dialects.error_bodies import find_told
from router.dialects.fields import as_object, as_text, read_stream
from router.dialects.json_body import parse_body
from router.dialects.responses.compose import ResponsesComposer
from router.dialects.splice import replace_fields
from router.dialects.translate.parser import read_failure

_TIME_DIGITS = 11
"""How many digits of an id are its time."""
_FOR_NOW = frozenset({TiersBusy.code, RateLimited.code, StoreUnavailable.code, UpstreamLoading.code})


class AskedBackground:
    """A request with `background: true`: as it was sent, and as it is served, which is always as a stream."""

    __slots__ = ("arrival", "body", "is_streaming")

    def __init__(self, arrival: Arrival) -> None:
        """Raises `BadRequest` for what cannot be combined with `background`."""
        self.body = body = parse_body(arrival.raw)
        self.is_streaming = read_stream(body)
        if body.get("store") is False:
            raise BadRequest("background: needs a stored response. Leave store out, or set it to true", param="store")
        if "n" in body:
            raise BadRequest("n: not a field of this API. Send one request for each answer", param="n")
        raw = replace_fields(arrival.raw, body, {"background": None, "stream": True})
        self.arrival = replace(arrival, raw=raw)

    def write_queued(self, job_id: str, created: int) -> JsonObject:
        model = as_text(self.body.get("model"))
        whole = ResponsesComposer(Answer(job_id.removeprefix("resp_"), model, created, asked=self.body)).whole()
        return {**whole, "status": "queued"}


def job_id_of(request_id: str) -> str:
    """The id of the response that a request is answered with."""
    return f"resp_{request_id.removeprefix('req_')}"


def request_id_of(job_id: str, attempt: int = 1) -> str:
    """The id of an attempt's request: of the first, that of the request that the job was accepted with.

    Everybody can tell it, so whoever records an attempt does so under the same id, and the ledger has it once.
    """
    own = job_id.removeprefix("resp_")
    if attempt > 1:
        noise = hashlib.sha256(f"{job_id} {attempt}".encode()).hexdigest()
        own = own[:_TIME_DIGITS] + noise[: len(own) - _TIME_DIGITS]
    return f"req_{own}"


def write_arrival(job: Job, request_id: str) -> Arrival:
    """The request of a job, for one attempt to serve it."""
    return Arrival(request_id, Dialect.RESPONSES, Operation.CREATE, job.headers, job.body, job.caller, job.key, job=job.id)


def with_status(response: bytes, status: str, **more: object) -> bytes:
    """A response as it is now. `more` are further fields that differ."""
    return orjson.dumps({**as_object(parse_exactly(response)), "status": status, **more}, default=as_written)


def is_busy(refusal: bytes) -> bool:
    """Whether a request was refused by the router itself, and only for now."""
    return bool(refusal) and as_text(as_object(find_told(refusal)).get("code")) in _FOR_NOW


def read_refusal(body: bytes) -> JsonObject:
    """The same for a request that was refused: by the router, or by a target."""
    failure = read_failure(find_told(body))
    return write_error(failure.code, failure.message)


def write_error(code: str, message: str) -> JsonObject:
    return {"code": code, "message": message}
