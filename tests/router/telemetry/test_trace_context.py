"""`traceparent` and `tracestate`: what is taken, what is passed on, and which ids a request's spans have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.telemetry.trace_context import attempt_id, ids_of, name_conversation, read_parent, write_parent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("written", "is_sampled"),
    [(GOOD, True), (f"00-{TRACE}-{SPAN}-00", False), (f"00-{TRACE}-{SPAN}-03", True), (f"cc-{TRACE}-{SPAN}-01-more", True)],
)
def test_a_valid_parent_is_taken_with_its_sampling_flag(written, is_sampled):
    parent = read_parent({"traceparent": written})

    assert parent is not None
    assert (parent.trace_id, parent.span_id, parent.is_sampled) == (TRACE, SPAN, is_sampled)
    assert parent.unchanged == (("traceparent", written),)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "canary",
        GOOD.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-0g",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_a_malformed_parent_counts_as_none(written):
    assert read_parent({"traceparent": written, "tracestate": "a=b"}) is None


@given(st.text(max_size=70))
def test_no_header_is_more_than_malformed(written):
    assert read_parent({"traceparent": f"00{written}", "tracestate": written}) is None


@pytest.mark.parametrize("state", ["rojo=00f067aa0ba902b7", "a=1, b@c=2 3,d/e*=~", "a=1,,b=2"])
def test_a_valid_state_is_passed_on_unchanged(state):
    parent = read_parent({"traceparent": GOOD, "tracestate": state})

    assert parent is not None
    assert parent.state_header == (("tracestate", state),)


@pytest.mark.parametrize(
    "state", ["A=1", "a", "a=", "a=1,a=2", "=1", "a=b=c", "a=\x01", ",".join(f"k{n}=1" for n in range(33)), "a=" + "x" * 300]
)
def test_an_invalid_state_is_dropped_and_its_parent_kept(state):
    parent = read_parent({"traceparent": GOOD, "tracestate": state})

    assert parent is not None
    assert parent.state_header == ()


def test_ids_of_a_request_are_always_the_same_and_those_of_another_differ():
    parent = read_parent({"traceparent": GOOD})
    own, joined = ids_of("req_1", None), ids_of("req_1", parent)

    assert own == ids_of("req_1", None)
    assert (joined.trace, joined.request) == (TRACE, own.request)
    assert len({*own, *ids_of("req_2", None), attempt_id("req_1", 0), attempt_id("req_1", 1), attempt_id("req_2", 0)}) == 9


def test_what_is_written_is_a_valid_parent():
    parent = read_parent({"traceparent": write_parent(ids_of("req_1", None).trace, attempt_id("req_1", 0))})

    assert parent is not None
    assert parent.is_sampled


def test_a_session_is_shown_by_a_digest_that_differs_by_caller():
    shown = name_conversation("ada", "my-secret-project")

    assert shown == name_conversation("ada", "my-secret-project")
    assert shown != name_conversation("bob", "my-secret-project")
    assert "secret" not in shown
