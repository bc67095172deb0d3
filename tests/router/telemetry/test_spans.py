"""The spans of a finished request: which there are, what they are called, who is whose parent, and when each was."""

import json

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from router.contract.entry import Attempt
from router.contract.errors import BadRequest, Unavailable
from router.contract.exchange import Passed
from router.contract.facts import (
    AttemptEnded,
    AttemptOpened,
    Dequeued,
    Ending,
    PassedOn,
    QuestionEnded,
    Queued,
    Read,
    Replayed,
    ResponseCompleted,
)
from router.contract.relay import RouteRequest
from router.contract.usage import Usage
from router.contract.words import Outcome, PassedRoute
from router.telemetry import genai
from router.telemetry.finished import gather
from router.telemetry.otlp import wrap
from router.telemetry.spans import SpanWriter
from router.telemetry.trace_context import read_parent
from tests.router.telemetry.traced import CANARY, SPARK, called, failed, finish, terms
from tests.tools.exchanges import make_decided
from tests.tools.trace_receiver import family_of, misplaced_in, spans_in, values_of
from tests.tools.values import make_target

OFFSET = 1_700_000_000_000_000_000
DECIDED = make_decided()
FIRST = (Read(DECIDED.view), DECIDED)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def write(*given, **more) -> list[Span]:
    """The spans of a request with these facts, read back. Parents and times are right in all of them."""
    exchange, recorded = finish("req_1", *given, **more)
    parent = read_parent(exchange.arrival.headers)
    body = wrap([SpanWriter(terms(), OFFSET).write(gather(exchange, recorded, parent))], "desk-1.2")
    spans = spans_in(body)
    assert misplaced_in(spans) == []
    assert CANARY not in body.decode()
    assert {attribute.key for span in spans for attribute in span.attributes} <= {known.name for known in genai.ATTRIBUTES}
    return spans


def test_a_served_request_has_three_spans_with_the_names_of_the_conventions():
    request, decide, (attempt,) = family_of(write())

    assert (request.name, decide.name, attempt.name) == ("POST /v1/chat/completions", "decide", "chat fast-model")
    assert decide.parent_span_id == attempt.parent_span_id == request.span_id
    asked = values_of(request.attributes)
    assert [asked[name] for name in ("http.route", "url.path", "url.scheme")] == [*["/v1/chat/completions"] * 2, "https"]
    assert request.parent_span_id == b""
    assert values_of(decide.attributes) == {
        "tandem.tier": "fast",
        "tandem.because": "looks like a quick edit",
        "tandem.score": 0.1,
        "tandem.decided_by": "estimate",
    }
    told = values_of(attempt.attributes)
    assert len(told.pop("gen_ai.conversation.id")) == 32
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "fast-model",
        "gen_ai.response.time_to_first_chunk": 0.5,
        "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 30,
        "gen_ai.usage.cache_read.input_tokens": 10,
        "gen_ai.usage.cache_write.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 7,
        "http.response.status_code": 200,
        "tandem.target": "spark",
        "tandem.tier": "fast",
    }


def test_times_are_those_of_the_facts_by_one_pair_of_clocks():
    request, decide, (attempt,) = family_of(write())
    times = [(span.start_time_unix_nano - OFFSET, span.end_time_unix_nano - OFFSET) for span in (request, decide, attempt)]

    assert times == [(500_000_000, 3_000_000_000), (500_000_000, 1_000_000_000), (1_000_000_000, 2_000_000_000)]


@pytest.mark.parametrize(("opened", "closed"), [(0.4, 0.45), (2.9, 3.1), (3.5, 4.0), (2.0, 1.0)])
def test_a_child_is_kept_within_its_parent_even_where_clocks_were_read_out_of_order(opened, closed):
    assert len(write(*FIRST, *called(opened, closed))) == 3


def test_each_failed_attempt_has_a_span_with_its_error_and_the_request_that_of_the_one_that_served():
    sage = make_target("sage", model="deep-model")
    request, _, (first, second) = family_of(write(*FIRST, *called(1.0, 1.5, failed()), *called(1.6, 2.0, target=sage)))

    assert (first.name, second.name) == ("chat fast-model", "chat deep-model")
    assert values_of(first.attributes)["error.type"] == "upstream_timeout"
    assert (first.status.code, second.status.code, request.status.code) == (2, 0, 0)
    assert values_of(request.attributes)["tandem.target"] == "sage"
    assert "error.type" not in values_of(second.attributes)


def test_a_wait_in_a_queue_is_an_event_of_the_request_and_not_a_part_of_the_decision():
    waits = (Queued(1.0, SPARK, 2, 3, 9.0), Dequeued(1.75, SPARK, 0.75, True))
    request, decide, _ = family_of(write(*FIRST, *waits, *called(1.8, 2.0)))

    (event,) = request.events
    assert (event.name, event.time_unix_nano - OFFSET) == ("tandem.queued", 1_000_000_000)
    assert values_of(event.attributes) == {
        "tandem.target": "spark",
        "tandem.queue.seconds": 0.75,
        "tandem.queue.position": 2,
        "tandem.queue.length": 3,
        "tandem.queue.has_turn": True,
    }
    assert decide.end_time_unix_nano - OFFSET == 1_000_000_000


def test_a_target_that_could_only_misunderstand_the_request_is_an_event_and_no_span():
    misfit = AttemptEnded(0.9, SPARK, Attempt("spark", None, "invalid_request", 0.0), BadRequest(CANARY), None, None)
    request, _, attempts = family_of(write(*FIRST, misfit, *called()))

    assert [(event.name, values_of(event.attributes)["error.type"]) for event in request.events] == [
        ("tandem.not_sent", "invalid_request")
    ]
    assert len(attempts) == 1


def test_a_look_is_an_attempt_of_the_request_after_the_one_that_served():
    row = Attempt("sage", 200, None, 0.4, Usage(40, 1), is_question=True, is_look=True)
    *facts, settled = called()
    look = QuestionEnded(1.9, SPARK, row, None, None, None, 1.5)
    request, decide, (served, looked) = family_of(write(*FIRST, *facts, look, settled))

    assert looked.parent_span_id == request.span_id != decide.span_id
    assert looked.end_time_unix_nano > looked.start_time_unix_nano
    assert values_of(looked.attributes)["tandem.is_question"] is True
    assert looked.span_id != served.span_id


def test_the_model_of_an_answer_is_told_where_it_is_known():
    opened, *rest = called()
    _, _, (attempt,) = family_of(
        write(*FIRST, opened, ResponseCompleted(SPARK, {"model": "fast-model-2", "output": CANARY}), *rest)
    )

    assert values_of(attempt.attributes)["gen_ai.response.model"] == "fast-model-2"


def test_a_refused_request_has_its_span_alone_with_the_error_and_no_fault():
    ending = Ending(Outcome.REFUSED, 400, BadRequest(CANARY))
    (request,) = write(Read(DECIDED.view), ending=ending)
    told = values_of(request.attributes)

    assert (told["error.type"], told["http.response.status_code"], told["tandem.outcome"]) == (
        "invalid_request",
        400,
        "REFUSED",
    )
    assert request.status.code == 0


def test_a_request_that_failed_is_a_fault():
    request, decide, _ = family_of(write(*FIRST, ending=Ending(Outcome.FAILED, 503, Unavailable("none"))))

    assert (request.status.code, decide.status.code) == (2, 0)


def test_a_replayed_request_has_its_span_alone_and_says_what_it_repeats():
    (request,) = write(Replayed("replayed from req_0 (same Idempotency-Key)"))

    assert values_of(request.attributes)["tandem.because"] == "replayed from req_0 (same Idempotency-Key)"


def test_a_request_that_was_passed_on_has_its_own_route_and_one_attempt():
    passed = Passed(PassedRoute.EMBEDDINGS, RouteRequest("PUT", f"/embeddings?{CANARY}", (), CANARY.encode()))
    request, decide, (attempt,) = family_of(write(PassedOn("pass_through names spark"), *called(), passed=passed))

    assert (request.name, decide, attempt.name) == ("PUT /v1/embeddings", None, "embeddings fast-model")


def test_a_request_that_its_caller_left_shows_how_far_it_came():
    abandoned = AttemptEnded(2.0, SPARK, Attempt("spark", None, "abandoned", 1.0), None, None, None)
    ending = Ending(Outcome.ABANDONED, 499)
    request, _, (attempt,) = family_of(write(*FIRST, AttemptOpened(1.0, SPARK, "", ()), abandoned, ending=ending))

    assert (values_of(request.attributes)["tandem.outcome"], request.status.code) == ("ABANDONED", 0)
    assert (values_of(attempt.attributes)["error.type"], attempt.status.code) == ("abandoned", 0)


def test_an_attempt_without_an_end_lasts_as_long_as_its_request():
    request, _, (attempt,) = family_of(write(*FIRST, AttemptOpened(1.0, SPARK, "", ())))

    assert attempt.end_time_unix_nano == request.end_time_unix_nano


def test_a_request_over_a_socket_is_named_by_its_route_alone():
    (request, *_) = write(responses=object(), path="/chat/completions")
    told = values_of(request.attributes)

    assert (request.name, told["network.protocol.name"]) == ("/v1/chat/completions", "websocket")
    assert "http.request.method" not in told
    assert (told["url.path"], told["url.scheme"]) == ("/chat/completions", "wss")


def test_the_callers_trace_goes_on_with_its_state():
    request, decide, (attempt,) = family_of(write(headers={"traceparent": PARENT, "tracestate": "a=b"}))

    assert {span.trace_id.hex() for span in (request, decide, attempt)} == {PARENT.split("-")[1]}
    assert {span.trace_state for span in (request, decide, attempt)} == {"a=b"}
    assert request.parent_span_id.hex() == PARENT.split("-")[2]


def test_what_waits_to_be_written_holds_neither_the_body_nor_an_error():
    exchange, recorded = finish("req_1", *FIRST, *called(1.0, 2.0, failed()))
    kept = repr(gather(exchange, recorded, None))

    assert CANARY not in kept
    assert "hello" not in kept
    assert json.dumps("req_1").strip('"') in kept
