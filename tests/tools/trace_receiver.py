"""A trace collector, whose batches are read by OpenTelemetry's definitions."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

IDS = ("traceId", "spanId", "parentSpanId")


def read_batch(body: bytes) -> ExportTraceServiceRequest:
    """A batch in JSON. OTLP writes ids in hexadecimal, Protobuf's JSON in base64."""

    def in_base64(found: dict[str, Any]) -> dict[str, Any]:
        ids = {name: base64.b64encode(bytes.fromhex(found[name])).decode() for name in IDS if name in found}
        return {**found, **ids}

    return json_format.ParseDict(json.loads(body, object_hook=in_base64), ExportTraceServiceRequest())


def spans_in(*bodies: bytes) -> list[Span]:
    batches = map(read_batch, bodies)
    return [span for batch in batches for each in batch.resource_spans for scope in each.scope_spans for span in scope.spans]


def values_of(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


class Receiver:
    """Answers batches with `answers` in turn, then 200, and keeps them."""

    def __init__(self, *answers: int, headers: dict[str, str] | None = None, body: bytes = b"{}") -> None:
        self.answers, self.headers, self.body = list(answers), headers or {}, body
        self.taken: list[bytes] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.arrived = threading.Semaphore(0)
        """Released once per batch, accepted or not."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._answer(self)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def spans(self) -> list[Span]:
        return spans_in(*self.taken)

    @property
    def traces(self) -> dict[bytes, list[Span]]:
        found: dict[bytes, list[Span]] = {}
        for span in self.spans:
            found.setdefault(span.trace_id, []).append(span)
        return found

    def _answer(self, call: BaseHTTPRequestHandler) -> None:
        body = call.rfile.read(int(call.headers["content-length"]))
        status = self.answers.pop(0) if self.answers else 200
        self.seen.append((call.path, {name.lower(): value for name, value in call.headers.items()}))
        if status == 200:
            self.taken.append(body)
        call.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(self.body)), **self.headers}.items():
            call.send_header(name, value)
        call.end_headers()
        call.wfile.write(self.body)
        self.arrived.release()


def family_of(spans: list[Span]) -> tuple[Span, Span | None, list[Span]]:
    """The spans of request, `decide` and attempts of one trace."""
    (request,) = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    decide = [span for span in spans if span.kind == Span.SPAN_KIND_INTERNAL]
    attempts = [span for span in spans if span.kind == Span.SPAN_KIND_CLIENT]
    return request, decide[0] if decide else None, attempts


def misplaced_in(spans: list[Span]) -> list[str]:
    """Faults in the parents and times of a trace. Every span but the request's has its parent here."""
    known, wrong = {span.span_id: span for span in spans}, []
    if len(known) != len(spans):
        wrong.append("two spans have the same id")
    for span in spans:
        parent = known.get(span.parent_span_id)
        if parent is None and span.kind != Span.SPAN_KIND_SERVER:
            wrong.append(f"{span.name}: its parent is not here")
        if span.start_time_unix_nano > span.end_time_unix_nano:
            wrong.append(f"{span.name}: ends before it begins")
        if parent is not None and (
            span.start_time_unix_nano < parent.start_time_unix_nano or span.end_time_unix_nano > parent.end_time_unix_nano
        ):
            wrong.append(f"{span.name}: is not within {parent.name}")
        if any(not span.start_time_unix_nano <= event.time_unix_nano <= span.end_time_unix_nano for event in span.events):
            wrong.append(f"{span.name}: has an event outside of it")
    return wrong
