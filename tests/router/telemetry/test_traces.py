"""Which requests are traced, what their targets are sent, and what happens to traces that nobody takes."""

import socket
import threading

import pytest

from router.contract.facts import AttemptOpened
from router.telemetry.losses import Losses
from router.telemetry.trace_context import attempt_id, ids_of
from router.telemetry.traces import MAX_WAITING, Pace, Traces
from tests.router.telemetry.traced import CANARY, SPARK, begin, finish, terms
from tests.tools.trace_receiver import Receiver, family_of, misplaced_in, spans_in

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
NEVER = 3_600.0
AT_ONCE = Pace(batch=NEVER, retries=(0.0, 0.0), timeout=30.0)
"""Sends when there are enough for a batch, or when told to stop, and tries again without a pause."""


@pytest.fixture
def traces_to():
    """Starts traces that are sent to an address. They end with the test."""
    begun: list[Traces] = []

    def start(url: str = "http://127.0.0.1:1", losses: Losses | None = None, pace: Pace = AT_ONCE, **more) -> Traces:
        begun.append(Traces(terms(url, **more), losses or Losses(), pace))
        return begun[-1]

    yield start
    for traces in begun:
        traces.close(30.0)


def tell(traces: Traces, *names: str, **more) -> None:
    """Let these requests end."""
    (handle,) = traces.handlers().values()
    for name in names:
        handle(*finish(name, **more))


def names(count: int, prefix: str = "req") -> list[str]:
    return [f"{prefix}_{number}" for number in range(count)]


def test_a_thousand_requests_are_sent_with_parents_times_and_no_words_while_a_receiver_is_away_and_comes_back(traces_to):
    losses, told = Losses(), 0
    with Receiver(503, 503, 200, 503, 503, 503) as receiver:
        traces = traces_to(receiver.url, losses, pace=Pace(batch=0.0, retries=(0.0, 0.0), timeout=30.0))
        for tries in (3, 3, 1):  # what comes first is taken when it is tried for the third time, and what comes next is lost
            tell(traces, *names(334, f"{told}"))
            told += 334
            for _ in range(tries):
                receiver.arrived.acquire()
        traces.close(30.0)
        found = receiver.traces

    assert (len(found) + losses.count, told) == (told, 1_002)
    assert 0 < losses.count < told
    assert [wrong for trace in found.values() for wrong in misplaced_in(trace)] == []
    assert {(request.name, decide.name, len(attempts)) for request, decide, attempts in map(family_of, found.values())} == {
        ("POST /v1/chat/completions", "decide", 1)
    }
    assert all(CANARY.encode() not in body and b"hello" not in body for body in receiver.taken)


def test_a_batch_is_tried_three_times_and_then_counted_as_lost(traces_to, listen):
    heard, losses = listen(), Losses()
    with Receiver(503, 503, 503) as receiver:
        traces = traces_to(receiver.url, losses)
        tell(traces, *names(512))
        for _ in range(3):
            receiver.arrived.acquire()
        traces.close(30.0)

    (event,) = [event for event in heard() if event["event"] == "traces.lost"]
    assert (len(receiver.seen), receiver.taken, losses.count) == (3, [], 512)
    assert (event["reason"], event["lost"]) == ("the collector answered 503", 512)


def test_a_batch_that_the_collector_calls_wrong_is_not_tried_again(traces_to):
    losses = Losses()
    with Receiver(400) as receiver:
        traces = traces_to(receiver.url, losses)
        tell(traces, *names(3))
        traces.close(30.0)

    assert (len(receiver.seen), losses.count) == (1, 3)


def test_spans_that_a_collector_rejected_count_as_lost_requests_and_no_more_than_there_were(traces_to):
    losses = Losses()
    with Receiver(body=b'{"partialSuccess":{"rejectedSpans":"9"}}') as receiver:
        traces = traces_to(receiver.url, losses)
        tell(traces, *names(3))
        traces.close(30.0)

    assert losses.count == 3


def test_while_a_collector_hangs_no_more_than_the_bound_wait_and_the_rest_is_counted(traces_to, listen):
    heard, losses = listen(), Losses()

    with socket.create_server(("127.0.0.1", 0)) as mute:
        traces = traces_to(f"http://127.0.0.1:{mute.getsockname()[1]}", losses)
        tell(traces, *names(512, "hanging"))
        connection = mute.accept()[0]
        connection.recv(1)
        before = losses.count
        tell(traces, *names(MAX_WAITING + 100, "waiting"))
        after = losses.count
        traces.close(0.0)
        at_the_end = losses.count
        connection.close()

    assert (before, after, at_the_end) == (0, 100, MAX_WAITING + 100 + 512)
    assert [event["reason"] for event in heard() if event["event"] == "traces.lost"] == ["the router was stopped"]


def test_one_request_that_cannot_be_written_does_not_cost_the_others(traces_to):
    losses = Losses()
    with Receiver() as receiver:
        traces = traces_to(receiver.url, losses)
        (handle,) = traces.handlers().values()
        odd, recorded = finish("req_odd")
        odd.began = None
        handle(odd, recorded)
        tell(traces, "req_good")
        traces.close(30.0)

    assert (len(receiver.traces), losses.count) == (1, 1)


@pytest.mark.parametrize("sample", [0.0, 0.1, 1.0])
def test_the_share_of_requests_is_traced_that_the_config_names(traces_to, sample):
    with Receiver() as receiver:
        traces = traces_to(receiver.url, sample=sample)
        tell(traces, *names(2_000))
        traces.close(30.0)
        count = sum(body.count(b'"decide"') for body in receiver.taken)

    assert 0.6 * sample * 2_000 <= count <= min(1.4 * sample, 1) * 2_000


@pytest.mark.parametrize(
    ("parent", "sample", "count"), [(SAMPLED, 0.0, 1), (UNSAMPLED, 1.0, 0), ("00-odd", 1.0, 1), ("00-odd", 0.0, 0)]
)
def test_the_callers_flag_decides_and_a_malformed_one_does_not(traces_to, parent, sample, count):
    with Receiver() as receiver:
        traces = traces_to(receiver.url, sample=sample)
        tell(traces, "req_1", headers={"traceparent": parent})
        traces.close(30.0)
        found = [trace.hex() for trace in receiver.traces]

    assert len(found) == count
    assert (found == [TRACE]) is (count == 1 and parent == SAMPLED)


def test_a_target_is_sent_the_id_of_the_span_that_its_attempt_gets(traces_to):
    with Receiver() as receiver:
        traces = traces_to(receiver.url)
        first, second = begin("req_1"), begin("req_1", AttemptOpened(1.0, SPARK, "", ()))
        sent = [dict(traces.headers_for(each))["traceparent"].split("-") for each in (first, second)]
        tell(traces, "req_1")
        traces.close(30.0)
        request, _, (attempt,) = family_of(receiver.spans)

    assert sent[0] == ["00", request.trace_id.hex(), attempt.span_id.hex(), "01"]
    assert sent[1] == ["00", request.trace_id.hex(), attempt_id("req_1", 1), "01"]


def test_a_target_of_a_callers_trace_is_sent_the_state_unchanged(traces_to):
    traces = traces_to()
    sent = traces.headers_for(begin("req_1", headers={"traceparent": SAMPLED, "tracestate": "a=b"}))

    assert sent == (("traceparent", f"00-{TRACE}-{attempt_id('req_1', 0)}-01"), ("tracestate", "a=b"))


def test_a_target_of_a_request_that_is_not_traced_is_sent_what_the_caller_sent_or_nothing(traces_to):
    traces = traces_to(sample=0.0)
    callers = {"traceparent": UNSAMPLED, "tracestate": "a=b"}

    assert traces.headers_for(begin("req_1", headers=callers)) == tuple(callers.items())
    assert traces.headers_for(begin("req_1", headers={"traceparent": "00-odd"})) == ()
    assert traces.headers_for(begin("req_1")) == ()


def test_a_question_has_an_id_of_its_own(traces_to):
    ((_, sent),) = traces_to().headers_for(begin("req_1"), is_question=True)

    assert sent.split("-")[1] == ids_of("req_1", None).trace
    assert sent.split("-")[2] not in {attempt_id("req_1", number) for number in range(5)}


def test_what_waits_is_sent_when_it_ends_and_the_thread_is_gone(traces_to):
    with Receiver() as receiver:
        traces = traces_to(receiver.url)
        tell(traces, *names(5))
        traces.close(30.0)

    assert len(spans_in(*receiver.taken)) == 15
    assert "traces" not in {thread.name for thread in threading.enumerate()}
