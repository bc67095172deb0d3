"""OTLP's JSON. Ids are hexadecimal there, whole numbers of 64 bits are text, and words of a closed set are numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

INTERNAL, SERVER, CLIENT = 1, 2, 3
_FAILED = {"code": 2}
_MAX_CHARS = 256
Value = str | bool | int | float | None
Values = Mapping[str, Value]
Event = dict[str, Any]


def write_span(
    ids: tuple[str, str, str],
    name: str,
    kind: int,
    times: tuple[int, int],
    values: Values,
    *,
    state: str = "",
    events: Sequence[Event] = (),
    is_failed: bool = False,
) -> bytes:
    """A span.

    `ids` are those of its trace, its own and its parent's, which may be empty; `times` its start and its end, in nanoseconds
    since 1970.
    """
    span = {
        "traceId": ids[0],
        "spanId": ids[1],
        "parentSpanId": ids[2],
        "traceState": state,
        "name": name[:_MAX_CHARS],
        "kind": kind,
        "startTimeUnixNano": str(times[0]),
        "endTimeUnixNano": str(times[1]),
        "attributes": _attributes(values),
        "events": events,
    }
    if is_failed:
        span["status"] = _FAILED
    return orjson.dumps(span)


def describe_event(name: str, at: int, values: Values) -> Event:
    """Something that happened within a span."""
    return {"name": name[:_MAX_CHARS], "timeUnixNano": str(at), "attributes": _attributes(values)}


def wrap(spans: list[bytes], instance: str, version: str = "") -> bytes:
    """A request to a collector with these spans."""
    router = {"service.name": "tandem", "service.instance.id": instance, "service.version": version or None}
    return b'{"resourceSpans":[{"resource":{"attributes":%b},"scopeSpans":[{"scope":{"name":"tandem"},"spans":[%b]}]}]}' % (
        orjson.dumps(_attributes(router)),
        b",".join(spans),
    )


def _attributes(values: Values) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": {"stringValue": value[:_MAX_CHARS]} if isinstance(value, str) else _number(value)}
        for name, value in values.items()
        if value is not None
    ]


def _number(value: bool | int | float) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}
