"""OTLP's JSON. Ids are hexadecimal there, whole numbers of 64 bits are text, and words of a closed set are numbers."""

from typing import Any

import orjson

INTERNAL, SERVER, CLIENT = 1, 2, 3
FAILED = {"code": 2}
"""The status of a span that ended with an error."""
_MAX_CHARS = 256
Span = dict[str, Any]


def write_span(trace_id: str, span_id: str, name: str, kind: int, times: tuple[str, str], values: dict[str, Any]) -> Span:
    """A span. `times` are its start and its end, in nanoseconds since 1970."""
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "name": name[:_MAX_CHARS],
        "kind": kind,
        "startTimeUnixNano": times[0],
        "endTimeUnixNano": times[1],
        "attributes": _attributes(values),
    }


def write_event(name: str, at: str, values: dict[str, Any]) -> Span:
    """Something that happened within a span."""
    return {"name": name, "timeUnixNano": at, "attributes": _attributes(values)}


def write_spans(spans: list[Span]) -> bytes:
    """The spans of one request, as `wrap` takes them."""
    return orjson.dumps(spans)[1:-1]


def wrap(spans: list[bytes], version: str = "") -> bytes:
    """A request to a collector with the spans of several requests."""
    own = {"name": "tandem", "version": version} if version else {"name": "tandem"}
    values = {"service.name": "tandem", "service.version": version or None}
    head = orjson.dumps({"attributes": _attributes(values)})
    return b'{"resourceSpans":[{"resource":%b,"scopeSpans":[{"scope":%b,"spans":[%b]}]}]}' % (
        head,
        orjson.dumps(own),
        b",".join(spans),
    )


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that have a value. A text is cut where it is very long."""
    return [{"key": name, "value": _value(value)} for name, value in values.items() if value is not None]


def _value(value: object) -> dict[str, object]:
    if isinstance(value, str):
        return {"stringValue": value[:_MAX_CHARS]}
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}
