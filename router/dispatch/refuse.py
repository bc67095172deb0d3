"""Telling a caller that nothing will come: our own words, or the target's where they blame the request."""

from router.contract.entry import Dispatched
from router.contract.errors import TandemError, UpstreamError, UpstreamRefused
from router.contract.relay import Sink
from router.contract.words import Dialect, Outcome
from router.dialects.headers import REQUEST_ID
from router.dialects.refusals import passes_unchanged, refusal_body, refusal_headers


def refuse(error: TandemError, dialect: Dialect, request_id: str, sink: Sink, record: Dispatched) -> None:
    """Answer an error and take it down. Only called while nothing has gone to the caller."""
    is_targets_fault = isinstance(error, UpstreamError) and not passes_unchanged(error)
    record.outcome = Outcome.FAILED if is_targets_fault or error.status >= 500 else Outcome.REFUSED
    record.status, record.error = error.status, error
    error.__traceback__ = None  # the frames that it came through hold the request, and it is held by them
    headers = [(REQUEST_ID, request_id), ("x-request-id", request_id), *refusal_headers(error)]
    if isinstance(error, UpstreamRefused) and passes_unchanged(error):
        body, kind = error.body, error.content_type
        headers.append(("x-tandem-target", error.target))
    else:
        body, kind = refusal_body(error, dialect, request_id), "application/json"
    sink.start(error.status, (("content-type", kind), ("content-length", str(len(body))), *headers))
    sink.write(body)
    sink.end()
