"""The log as an observer: one line for each request, and one where an operator should look."""

import pytest
from msgspec.structs import replace

from router.contract.entry import Attempt
from router.contract.errors import UpstreamAuth, UpstreamModel, UpstreamRefused, UpstreamTimeout
from router.contract.facts import AttemptEnded, Ending, Read, Recorded, Settled
from router.contract.opinions import Opinions, Skipped
from router.contract.words import Outcome
from router.telemetry.log import DefectLog, RequestLog
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.kept import make_entry
from tests.tools.values import ask, make_target

SPARK = make_target()
SERVED = make_entry()
FAILED = Recorded(make_entry(outcome=Outcome.FAILED))
SERVED_BY_ANOTHER = Recorded(replace(SERVED, line=replace(SERVED.line, attempts=2)))


def note(*facts) -> None:
    exchange = make_exchange(RequestLog())
    for fact in facts:
        exchange.note(fact)


def ended(error) -> AttemptEnded:
    return AttemptEnded(1.0, SPARK, Attempt("spark", None, error.code if error else None, 0.1), error, None, None)


def test_a_request_is_one_line_when_its_entry_is_written(listen):
    logged = listen()
    note(Read(ask()), make_decided(), ended(None), Settled(1.0, Ending(Outcome.SERVED, 200)), Recorded(make_entry("req_9")))

    (line,) = logged()
    assert (line["event"], line["request_id"], line["outcome"]) == ("request.settled", "req_9", "SERVED")


@pytest.mark.parametrize("error", [UpstreamAuth("spark", "x"), UpstreamModel("spark", "x")])
@pytest.mark.parametrize("recorded", [FAILED, SERVED_BY_ANOTHER])
def test_a_target_that_the_operator_must_mend_is_named_with_its_fault(listen, error, recorded):
    logged = listen()
    note(ended(error), ended(None), recorded)

    line, settled = logged()
    assert (line["event"], line["level"], line["target"], line["code"]) == (
        "target.misconfigured",
        "error",
        "spark",
        error.code,
    )
    assert settled["event"] == "request.settled"


@pytest.mark.parametrize("error", [None, UpstreamTimeout("spark", "x"), UpstreamRefused("spark", 500, b"", "")])
def test_a_target_that_merely_fails_is_no_line_of_its_own(listen, error):
    logged = listen()
    note(ended(error), FAILED)

    assert [line["event"] for line in logged()] == ["request.settled"]


def test_every_policy_that_was_skipped_is_a_warning(listen):
    logged = listen()
    skipped = (Skipped("mine", "ValueError"), Skipped("yours", "KeyError"))
    note(make_decided(decision=make_decision(opinions=Opinions(skipped=skipped))), Recorded(make_entry()))

    *warnings, settled = logged()
    assert [(line["event"], line["level"], line["policy"], line["reason"]) for line in warnings] == [
        ("policy.skipped", "warning", "mine", "ValueError"),
        ("policy.skipped", "warning", "yours", "KeyError"),
    ]
    assert settled["event"] == "request.settled"


def raise_in(place: int) -> Exception:
    try:
        return [][place] if place else {}["sk-canary"]
    except (IndexError, KeyError) as error:
        return error


def test_a_defect_of_an_observer_is_logged_once_with_the_first_request_that_met_it(listen):
    logged, defects = listen(), DefectLog()

    for number in range(3):
        defects.report(make_exchange(name=f"req_{number}"), raise_in(0))
    defects.report(make_exchange(name="req_other"), raise_in(1))

    lines = logged()
    assert [(line["request_id"], line["kind"]) for line in lines] == [("req_0", "KeyError"), ("req_other", "IndexError")]
    assert "canary" not in str(lines)


def test_defects_in_more_places_than_anyone_could_read_are_not_remembered(listen):
    logged, defects = listen(), DefectLog()

    for number in range(1_100):
        defects.report_by_id("req", type(f"Kind{number}", (Exception,), {})())

    assert len(logged()) == 1_000
