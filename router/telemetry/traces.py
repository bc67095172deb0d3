"""Traces of requests: the event loop notes which facts of a finished request are needed, and a thread does all the rest.

A request that is not sampled is left after one comparison. What waits for the thread is bounded, and holds no prompt, no answer
and no error, so a collector that is away costs a few megabytes at most. What does not fit is counted as lost.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from router.contract.exchange import Exchange, Handler
from router.contract.facts import AttemptOpened, Fact, Recorded
from router.contract.relay import Headers
from router.contract.tracing import TraceTerms
from router.telemetry import events
from router.telemetry.collector import Collector, NotTaken
from router.telemetry.finished import Finished, gather
from router.telemetry.losses import Losses
from router.telemetry.otlp import wrap
from router.telemetry.spans import SpanWriter
from router.telemetry.trace_context import (
    LOOK,
    TRACEPARENT,
    attempt_id,
    ids_of,
    read_parent,
    write_parent,
)

MAX_WAITING = 2_048
_BATCH = 512
_AT_A_TIME = 8
_SENDING_SHARE = 0.9
"""How much of the time for closing the last batch may take. The rest is for noting that it failed."""
_SHARES = 1 << 32
"""How many values there are of what is taken of a request id's hash. They are spread evenly."""


class Pace(NamedTuple):
    """How long the thread waits, in seconds."""

    batch: float = 2.0
    """For more requests, from the first one on, unless there are enough for a batch."""
    retries: tuple[float, ...] = (2.0, 8.0)
    """Before each further try, after a failed one."""
    timeout: float = 5.0
    """For the collector, at each step of a call."""
    report: float = 60.0
    """Between two reports of losses."""


class Traces:
    """Observes requests, and sends the traces of some of them to a collector."""

    def __init__(self, terms: TraceTerms, losses: Losses, pace: Pace = Pace()) -> None:  # noqa: B008  it cannot be changed
        self._threshold, self._instance, self._losses, self._pace = terms.sample * _SHARES, terms.instance, losses, pace
        self._waiting: deque[Finished] = deque()
        self._writer = SpanWriter(terms, time.time_ns() - round(time.perf_counter() * 1e9))
        self._collector = Collector(terms.endpoint, terms.headers)
        self._some, self._enough, self._stopping = threading.Event(), threading.Event(), threading.Event()
        self._reported, self._reported_at, self._reason = losses.count, -pace.report, ""
        self._close_by, self._sending, self._is_given_up = 0.0, 0, False
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Recorded: self._note}

    def headers_for(self, exchange: Exchange, *, is_question: bool = False) -> Headers:
        """What a call carries: the id of its own span or, where the caller's trace is not sampled, what the caller sent."""
        headers, parent = exchange.arrival.headers, None
        if TRACEPARENT in headers and (parent := read_parent(headers)) is not None:
            if not parent.is_sampled:
                return parent.unchanged
        elif not self._is_sampled(exchange.id):
            return ()
        opened = sum(isinstance(fact, AttemptOpened) for fact in exchange.journal)
        span_id = attempt_id(exchange.id, LOOK if is_question else opened)
        own = (TRACEPARENT, write_parent(ids_of(exchange.id, parent).trace, span_id))
        return (own, *parent.state_header) if parent is not None else (own,)

    def _is_sampled(self, request_id: str) -> bool:
        return hash(request_id) & (_SHARES - 1) < self._threshold

    def _note(self, exchange: Exchange, recorded: Recorded) -> None:
        headers, parent = exchange.arrival.headers, None
        if TRACEPARENT in headers and (parent := read_parent(headers)) is not None:
            if not parent.is_sampled:
                return
        elif not self._is_sampled(exchange.id):
            return
        waiting = self._waiting
        if len(waiting) >= MAX_WAITING:
            self._losses.add(1)
            return
        waiting.append(gather(exchange, recorded, parent))
        if len(waiting) == 1:
            self._some.set()
        elif len(waiting) >= _BATCH:
            self._enough.set()

    def stop(self) -> None:
        """Let the thread send what waits, and end."""
        self._close_by = self._close_by or time.monotonic() + self._pace.timeout
        self._stopping.set()
        self._enough.set()
        self._some.set()

    def close(self, within_seconds: float) -> None:
        """Stop, and wait up to this long for what is still to be sent. The rest is lost."""
        self._close_by = time.monotonic() + _SENDING_SHARE * within_seconds
        self.stop()
        self._thread.join(within_seconds)
        left, self._is_given_up = len(self._waiting) + self._sending, True
        if left:
            self._waiting.clear()
            self._lose(left, "the router was stopped")
            self._report(time.monotonic(), is_last=True)

    def _run(self) -> None:
        self._version = _find_version()
        while not self._stopping.is_set():
            self._some.wait()
            self._enough.wait(self._pace.batch)
            self._some.clear()
            self._enough.clear()
            self._send_waiting()
        self._send_waiting()
        self._report(time.monotonic(), is_last=True)

    def _send_waiting(self) -> None:
        """Send all that wait now. Those that come meanwhile wait for others again."""
        left = len(self._waiting)
        while left:
            spans: list[bytes] = []
            count = min(_BATCH, left)
            left -= count
            for _ in range(count):
                if self._is_given_up:
                    return
                try:
                    spans.append(self._writer.write(self._waiting.popleft()))
                except Exception as error:  # noqa: BLE001  the defect of one trace must not cost the others
                    self._lose(1, f"{type(error).__name__} at {events.place_of(error)}")
                if not len(spans) % _AT_A_TIME:
                    time.sleep(0)  # the event loop is not to wait for a whole batch
            if spans:
                self._sending = len(spans)
                self._send(wrap(spans, self._instance, self._version), len(spans))
                self._sending = 0
        if self._waiting:
            self._some.set()
        self._report(time.monotonic())

    def _send(self, body: bytes, requests: int) -> None:
        """Send a batch. It is tried again after failures that may pass, and not while the router stops."""
        for pause in (*self._pace.retries, None):
            try:
                rejected = self._collector.post(body, self._time_left())
            except NotTaken as error:
                if pause is None or not error.may_pass or self._stopping.wait(max(pause, error.wait_seconds)):
                    if not self._is_given_up:  # else they are counted
                        self._lose(requests, str(error))
                    return
            except Exception as error:  # noqa: BLE001  a defect must not end the thread
                self._lose(requests, f"{type(error).__name__} at {events.place_of(error)}")
                return
            else:
                if rejected:
                    self._lose(min(rejected, requests), f"the collector rejected {rejected} spans")
                return

    def _time_left(self) -> float:
        if not self._stopping.is_set():
            return self._pace.timeout
        return max(0.05, self._close_by - time.monotonic())

    def _lose(self, requests: int, reason: str) -> None:
        self._losses.add(requests)
        self._reason = reason

    def _report(self, now: float, *, is_last: bool = False) -> None:
        lost = self._losses.count - self._reported
        if lost and (is_last or now - self._reported_at >= self._pace.report):
            self._reported, self._reported_at = self._losses.count, now
            events.traces_lost(reason=self._reason or f"more than {MAX_WAITING} were waiting", lost=lost)
            self._reason = ""


def _find_version() -> str:
    try:
        return version("tandem-router")
    except PackageNotFoundError:
        return ""
