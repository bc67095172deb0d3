"""Errors for callers whose answer will not come or not continue, and the request's ending."""

import asyncio

from router.contract.errors import InBackground, Superseded, TandemError, UpstreamError
from router.contract.exchange import Arrival, CancelReason, Exchange, cancel_error
from router.contract.facts import AttemptOpened, Ending, FirstByte
from router.contract.relay import Sink
from router.contract.words import Outcome
from router.dialects.refusals import passes_unchanged, refuse_to

ABANDONED = Ending(Outcome.ABANDONED, 499)
"""The caller left."""
INTERRUPTED = Ending(Outcome.INTERRUPTED, 499)
"""The person said something else meanwhile, on the same socket."""
LEAVING = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""The request is cancelled, or the process ends: always passed on."""


def refuse(error: TandemError, arrival: Arrival, sink: Sink) -> Ending:
    """Answer with an error. Only called before any output."""
    if isinstance(error, Superseded):
        outcome = Outcome.SUPERSEDED
    else:
        is_targets_fault = isinstance(error, UpstreamError) and not passes_unchanged(error)
        outcome = Outcome.FAILED if is_targets_fault or error.status >= 500 else Outcome.REFUSED
    refuse_to(sink, error.without_frames(), arrival.dialect, arrival.id)
    return Ending(outcome, error.status, error)


async def refuse_job(house: object, exchange: Exchange, sink: Sink) -> Ending:
    """Refuse `background: true` in a router without jobs."""
    return refuse(InBackground(), exchange.arrival, sink)


def cut_off(exchange: Exchange, sink: Sink) -> Ending:
    """The ending of a cancelled request. Tells a connected caller, unless an attempt will."""
    if exchange.cancelled is CancelReason.INTERRUPTED:
        return INTERRUPTED
    error = cancel_error(exchange.cancelled)
    if error is None:
        return ABANDONED
    outcome = Outcome.SUPERSEDED if isinstance(error, Superseded) else Outcome.CUT_SHORT
    if exchange.last(FirstByte) is not None:
        return Ending(outcome, 200, error)
    if exchange.last(AttemptOpened) is None:
        return refuse(error, exchange.arrival, sink)
    return Ending(outcome, 499, error)


def as_exception(error: BaseException) -> Exception:
    """A defect as an `Exception`: a panic in a Rust extension raises a bare `BaseException`."""
    if isinstance(error, Exception):
        return error
    fault = RuntimeError(type(error).__name__)
    fault.__cause__ = error
    return fault
