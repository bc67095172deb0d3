"""Admission, shared by both ways in: how many are inside, and the road behind a guard that lets no defect through."""

from typing import Protocol

from router.contract.errors import InternalFault, Unavailable
from router.contract.relay import Sink
from router.dialects.headers import REQUEST_ID
from router.dialects.refusals import refusal_body
from router.dialects.requests import Arrival
from router.edge.doors import Limits
from router.house import House
from router.telemetry import events


class CallerSink(Sink, Protocol):
    """A caller's end of an answer, which knows whether anything of one has gone out."""

    has_started: bool


class Gate:
    """Counts who is inside, and takes each through the house."""

    def __init__(self, house: House, limits: Limits) -> None:
        self._house, self.limits = house, limits
        self.inside = 0

    def enter(self) -> None:
        """Take a place, from the head of a request on; refuse when as many are inside as may be."""
        if self.inside >= self.limits.max_in_flight:
            raise Unavailable(f"{self.inside} requests are running, as many as allowed", retry_after_seconds=1)
        self.inside += 1

    def leave(self) -> None:
        """Give the place back."""
        self.inside -= 1

    async def serve(self, arrival: Arrival, sink: CallerSink) -> None:
        """Run the road. A defect of ours becomes a 500 without details, or a cut when an answer had begun."""
        try:
            await self._house.serve(arrival, sink)
        except Exception as error:  # noqa: BLE001  the edge: a defect must not leave the caller without an answer
            report_fault(error, arrival.id)
            fault = InternalFault("Tandem had an internal error")
            if sink.has_started:
                sink.fail(fault)
                return
            body = refusal_body(fault, arrival.dialect, arrival.id)
            headers = (("content-type", "application/json"), ("content-length", str(len(body))), (REQUEST_ID, arrival.id))
            sink.start(500, headers)
            sink.write(body)
            sink.end()


def report_fault(error: Exception, request_id: str) -> None:
    """Log a defect by its kind and its place in our code, never by its values."""
    events.fault_caught(request_id=request_id, kind=type(error).__name__, where=events.place_of(error))
