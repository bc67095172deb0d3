"""Metrics that a config turns on and off."""

import pytest

from router.contract.exchange import Arrival, Deadline, Exchange, Observers
from router.contract.facts import Recorded
from router.contract.words import Dialect, Operation
from router.telemetry.metrics_switch import MetricsSwitch
from tests.tools.lines import make_recorded


@pytest.fixture
def observers():
    return Observers((), lambda exchange, error: pytest.fail(str(error)))


@pytest.fixture
def switch(observers):
    return MetricsSwitch(observers)


def finish(observers) -> None:
    arrival = Arrival("req_test", Dialect.CHAT, Operation.CREATE, {}, b"")
    Exchange(arrival, 0.0, Deadline(1.0), observers).note(make_recorded())


def counted(switch) -> float:
    return sum(switch.metrics.counts()["tandem_requests_total"].values())


def test_while_they_are_off_no_request_is_observed(switch, observers):
    switch.follow(["spark"], on=False, callers=False)

    assert switch.metrics is None
    assert observers.handlers[Recorded] == []


def test_a_reload_that_leaves_them_on_keeps_what_was_counted_and_counts_once(switch, observers):
    switch.follow(["spark"], on=True, callers=False)
    finish(observers)

    switch.follow(["spark", "sage"], on=True, callers=True)
    finish(observers)

    assert counted(switch) == 2


def test_turned_off_and_on_they_begin_at_zero(switch, observers):
    switch.follow(["spark"], on=True, callers=False)
    finish(observers)
    switch.follow(["spark"], on=False, callers=False)
    assert observers.handlers[Recorded] == []

    switch.follow(["spark"], on=True, callers=False)

    assert counted(switch) == 0
    finish(observers)
    assert counted(switch) == 1


def test_a_defect_in_counting_is_logged_once_and_not_for_every_request(switch, observers, listen):
    logged = listen()
    switch.follow(["spark"], on=True, callers=False)
    arrival = Arrival("req_test", Dialect.CHAT, Operation.CREATE, {}, b"")
    for _ in range(200):
        Exchange(arrival, 0.0, Deadline(1.0), observers).note(make_recorded(duration_ms=None))
    switch.metrics.counts()

    assert [(line["event"], line["kind"]) for line in logged()] == [("fault.caught", "TypeError")]
