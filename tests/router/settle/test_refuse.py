"""How a request ends that no answer came for: who is at fault, and what its caller is told."""

import json

import pytest
from msgspec.structs import replace

from router.contract.errors import (
    BadRequest,
    CallerKey,
    InternalFault,
    TiersBusy,
    Unavailable,
    UpstreamRefused,
    UpstreamTimeout,
)
from router.contract.exchange import Arrival, CancelReason
from router.contract.facts import AttemptOpened, Ending, FirstByte
from router.contract.words import Dialect, Operation, Outcome
from router.settle.refuse import cut_off, refuse
from tests.tools.exchanges import RecordingSink, make_exchange
from tests.tools.values import make_target

ARRIVAL = Arrival("req_5", Dialect.CHAT, Operation.CREATE, {}, b"{}")


@pytest.fixture
def sink():
    return RecordingSink()


@pytest.mark.parametrize(
    ("error", "outcome", "status"),
    [
        (BadRequest("x"), Outcome.REFUSED, 400),
        (CallerKey("x"), Outcome.REFUSED, 401),
        (TiersBusy("x"), Outcome.REFUSED, 429),
        (UpstreamRefused("spark", 400, b"{}", "application/json"), Outcome.REFUSED, 400),
        (UpstreamRefused("spark", 429, b"{}", "application/json"), Outcome.FAILED, 429),
        (UpstreamRefused("spark", 503, b"{}", "application/json"), Outcome.FAILED, 503),
        (UpstreamTimeout("spark", "x"), Outcome.FAILED, 504),
        (Unavailable("x"), Outcome.FAILED, 503),
        (InternalFault("x"), Outcome.FAILED, 500),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_what_the_caller_can_mend_is_refused_and_all_else_has_failed(sink, error, outcome, status):
    ending = refuse(error, ARRIVAL, sink)

    assert ending == Ending(outcome, status, error)
    assert sink.words == ["start", "write", "end"]
    assert sink.status == status


def test_the_caller_is_told_in_its_own_dialect_with_the_requests_id(sink):
    refuse(BadRequest("messages: must be a list", param="messages"), replace(ARRIVAL, dialect=Dialect.MESSAGES), sink)

    told = json.loads(sink.body)
    assert told["type"] == "error"
    assert told["error"]["message"] == "messages: must be a list. (request req_5)"
    assert dict(sink.headers)["x-tandem-request-id"] == "req_5"


def test_a_targets_own_words_pass_when_they_blame_the_request(sink):
    refuse(UpstreamRefused("spark", 422, b"its own words", "text/plain"), ARRIVAL, sink)

    assert sink.body == b"its own words"
    assert dict(sink.headers)["x-tandem-target"] == "spark"


def test_the_error_lets_go_of_the_frames_that_hold_the_request():
    with pytest.raises(BadRequest) as raised:
        raise BadRequest("x")
    assert raised.value.__traceback__ is not None

    refuse(raised.value, ARRIVAL, RecordingSink())

    assert raised.value.__traceback__ is None


def under_way(*facts, reason: CancelReason):
    exchange = make_exchange()
    for fact in facts:
        exchange.note(fact)
    exchange.cancel(reason)
    return exchange


def test_a_caller_that_left_is_told_nothing(sink):
    assert cut_off(under_way(reason=CancelReason.CALLER_LEFT), sink) == Ending(Outcome.ABANDONED, 499)
    assert sink.words == []


def test_a_router_that_stops_tells_a_caller_for_whom_no_target_was_called_yet(sink):
    ending = cut_off(under_way(reason=CancelReason.STOPPING), sink)

    assert (ending.outcome, ending.status, sink.status) == (Outcome.FAILED, 503, 503)
    assert b"shutting down" in sink.body


def test_a_router_that_stops_leaves_the_telling_to_the_attempt_that_was_begun():
    opened, begun = AttemptOpened(0.0, make_target(), "", ()), FirstByte(make_target())
    for facts, status in (((opened,), 499), ((opened, begun), 200)):
        sink = RecordingSink()

        ending = cut_off(under_way(*facts, reason=CancelReason.STOPPING), sink)

        assert (ending.outcome, ending.status, ending.error.code) == (Outcome.CUT_SHORT, status, "unavailable")
        assert sink.words == []
