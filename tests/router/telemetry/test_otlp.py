"""OTLP's JSON, read again by OpenTelemetry's own definitions."""

from router.telemetry.otlp import CLIENT, describe_event, wrap, write_span
from tests.tools.trace_receiver import read_batch, spans_in, values_of

VALUES = {"text": "a\u2028b", "long": "x" * 1_000, "whole": 2**53 + 1, "part": 0.5, "is": False, "absent": None}


def test_every_kind_of_value_is_read_back_as_it_was_and_none_is_left_out():
    waited = describe_event("waited", 1, {"for": 3})
    ids = ("0a" * 16, "0b" * 8, "0c" * 8)
    span = write_span(ids, "chat some-model", CLIENT, (1, 2), VALUES, state="a=b", events=[waited], is_failed=True)

    (read,) = spans_in(wrap([span], "desk-1.2"))

    assert (read.trace_id, read.span_id, read.parent_span_id) == (b"\x0a" * 16, b"\x0b" * 8, b"\x0c" * 8)
    assert (read.name, read.trace_state) == ("chat some-model", "a=b")
    assert (read.start_time_unix_nano, read.end_time_unix_nano, read.kind) == (1, 2, read.SPAN_KIND_CLIENT)
    assert read.status.code == read.status.STATUS_CODE_ERROR
    told = {name: value for name, value in VALUES.items() if value is not None}
    assert values_of(read.attributes) == {**told, "long": "x" * 256}
    assert [(event.name, values_of(event.attributes)) for event in read.events] == [("waited", {"for": 3})]


def test_a_batch_names_the_service_its_instance_and_its_version_and_holds_the_spans_of_all_its_requests():
    spans = [write_span(("0a" * 16, f"{n:016x}", ""), "decide", 1, (1, 1), {}) for n in range(1, 4)]

    batch = read_batch(wrap(spans, "desk-1.2", "1.2.3"))

    (resource,) = batch.resource_spans
    told = {"service.name": "tandem", "service.instance.id": "desk-1.2", "service.version": "1.2.3"}
    assert values_of(resource.resource.attributes) == told
    assert [span.span_id[-1] for span in resource.scope_spans[0].spans] == [1, 2, 3]
