"""OTLP's JSON. Ids are hexadecimal there, whole numbers of 64 bits are text, and words of a closed set are numbers.

It is put together from pieces: most attributes have the same few values in every trace, and are encoded once.
"""

from collections.abc import Mapping, Sequence

import orjson

INTERNAL, SERVER, CLIENT = 1, 2, 3
_FAILED = b',"status":{"code":2}'
_SPAN = (
    b'{"traceId":"%b","spanId":"%b","parentSpanId":"%b","traceState":%b,"name":%b,"kind":%d,'
    b'"startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":[%b],"events":[%b]%b}'
)
_MAX_CHARS = 256
_MAX_KNOWN = 4_096
Value = str | bool | int | float | None
Values = Mapping[str, Value]
_known: dict[str | tuple[str, Value], bytes] = {}


def write_span(
    ids: tuple[str, str, str],
    name: str,
    kind: int,
    times: tuple[int, int],
    values: Values,
    *,
    state: str = "",
    events: Sequence[bytes] = (),
    is_failed: bool = False,
) -> bytes:
    """A span.

    `ids` are those of its trace, its own and its parent's, which may be empty; `times` its start and its end, in nanoseconds
    since 1970.
    """
    trace_id, span_id, parent_id = ids
    return _SPAN % (
        trace_id.encode(),
        span_id.encode(),
        parent_id.encode(),
        _text(state, max_chars=len(state)),
        _text(name),
        kind,
        *times,
        _attributes(values),
        b",".join(events),
        _FAILED if is_failed else b"",
    )


def write_event(name: str, at: int, values: Values) -> bytes:
    """Something that happened within a span."""
    return b'{"name":%b,"timeUnixNano":"%d","attributes":[%b]}' % (_text(name), at, _attributes(values))


def wrap(spans: list[bytes], version: str = "") -> bytes:
    """A request to a collector with these spans."""
    return b'{"resourceSpans":[{"resource":{"attributes":[%b]},"scopeSpans":[{"scope":{"name":"tandem"},"spans":[%b]}]}]}' % (
        _attributes({"service.name": "tandem", "service.version": version or None}),
        b",".join(spans),
    )


def _attributes(values: Values) -> bytes:
    """Those that have a value."""
    return b",".join([_known.get(pair) or _attribute(*pair) for pair in values.items() if pair[1] is not None])


def _attribute(name: str, value: Value) -> bytes:
    """One attribute. A text is remembered, since the next trace probably has it too."""
    if isinstance(value, str):
        written = b'{"key":"%b","value":{"stringValue":%b}}' % (name.encode(), orjson.dumps(value[:_MAX_CHARS]))
        _remember((name, value), written)
        return written
    if isinstance(value, bool):
        return b'{"key":"%b","value":{"boolValue":%b}}' % (name.encode(), b"true" if value else b"false")
    if isinstance(value, int):
        return b'{"key":"%b","value":{"intValue":"%d"}}' % (name.encode(), value)
    return b'{"key":"%b","value":{"doubleValue":%b}}' % (name.encode(), orjson.dumps(value))


def _text(text: str, max_chars: int = _MAX_CHARS) -> bytes:
    known = _known.get(text)
    if known is None:
        known = orjson.dumps(text[:max_chars])
        _remember(text, known)
    return known


def _remember(key: str | tuple[str, Value], written: bytes) -> None:
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    _known[key] = written
