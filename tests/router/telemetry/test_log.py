"""The log as an observer: one line for each request, and one where an operator should look."""

import pytest

from router.contract.decision import Skipped
from router.contract.entry import Attempt
from router.contract.errors import UpstreamAuth, UpstreamModel, UpstreamRefused, UpstreamTimeout
from router.contract.facts import AttemptEnded, Ending, Read, Recorded, Settled
from router.contract.words import Outcome
from router.telemetry.log import RequestLog
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.kept import make_entry
from tests.tools.values import ask, make_target

SPARK = make_target()


def note(*facts) -> None:
    exchange = make_exchange(RequestLog())
    for fact in facts:
        exchange.note(fact)


def ended(error) -> AttemptEnded:
    return AttemptEnded(1.0, SPARK, Attempt("spark", None, error.code if error else None, 0.1), error, None, None, False)


def test_a_request_is_one_line_when_its_entry_is_written(listen):
    logged = listen()
    note(Read(ask()), make_decided(), ended(None), Settled(1.0, Ending(Outcome.SERVED, 200)), Recorded(make_entry("req_9")))

    (line,) = logged()
    assert (line["event"], line["request_id"], line["outcome"]) == ("request.settled", "req_9", "SERVED")


@pytest.mark.parametrize("error", [UpstreamAuth("spark", "x"), UpstreamModel("spark", "x")])
def test_a_target_that_the_operator_must_mend_is_named_with_its_fault(listen, error):
    logged = listen()
    note(ended(error))

    (line,) = logged()
    assert (line["event"], line["level"], line["target"], line["code"]) == (
        "target.misconfigured",
        "error",
        "spark",
        error.code,
    )


@pytest.mark.parametrize("error", [None, UpstreamTimeout("spark", "x"), UpstreamRefused("spark", 500, b"", "")])
def test_a_target_that_merely_fails_is_no_line_of_its_own(listen, error):
    logged = listen()
    note(ended(error))

    assert logged() == []


def test_every_policy_that_was_skipped_is_a_warning(listen):
    logged = listen()
    note(make_decided(decision=make_decision(skipped=(Skipped("mine", "ValueError"), Skipped("yours", "KeyError")))))

    assert [(line["event"], line["level"], line["policy"], line["reason"]) for line in logged()] == [
        ("policy.skipped", "warning", "mine", "ValueError"),
        ("policy.skipped", "warning", "yours", "KeyError"),
    ]
