"""Telling observers: each what it asked for, in the order given, and a defect in one costs nobody else anything."""

import asyncio

import pytest
from msgspec.structs import replace

from router.contract.exchange import Arrival, Deadline, Exchange, Link, Observers, Part
from router.contract.facts import Ending, FirstByte, FirstToken, Settled
from router.contract.words import Dialect, Operation, Outcome
from router.telemetry.log import report_defect
from tests.tools.exchanges import make_exchange
from tests.tools.values import make_target

SPARK = make_target()
BYTE, TOKEN, SETTLED = FirstByte(SPARK), FirstToken(1.0, SPARK), Settled(2.0, Ending(Outcome.SERVED, 200))


class Listening:
    """Takes down what it is told, under its name."""

    def __init__(self, name: str, told: list, *observes: type) -> None:
        self.name, self.told, self.observes = name, told, observes

    def handlers(self):
        return dict.fromkeys(self.observes, self.note)

    def note(self, exchange, fact) -> None:
        self.told.append((self.name, exchange.id, fact))


class Faulty(Listening):
    def note(self, exchange, fact) -> None:
        super().note(exchange, fact)
        raise KeyError("sk-canary")


class Leaving(Listening):
    def note(self, exchange, fact) -> None:
        raise asyncio.CancelledError


def tell(*observers, facts=(BYTE, TOKEN, SETTLED)) -> None:
    arrival = Arrival("req_test", Dialect.CHAT, Operation.CREATE, {}, b"")
    exchange = Exchange(
        arrival, 0.0, Deadline(1.0), Observers([Link(Part.WATCHERS, observer) for observer in observers], report_defect)
    )
    for fact in facts:
        exchange.note(fact)


def test_each_is_told_what_it_asked_for_in_the_order_given():
    told = []

    tell(Listening("first", told, Settled, FirstByte), Listening("second", told, FirstByte), Listening("third", told, Settled))

    assert [(name, fact) for name, _, fact in told] == [
        ("first", BYTE),
        ("second", BYTE),
        ("first", SETTLED),
        ("third", SETTLED),
    ]
    assert {request for _, request, _ in told} == {"req_test"}


def test_one_that_raises_costs_neither_the_others_nor_the_request(listen):
    logged = listen()
    told = []

    tell(Listening("first", told, FirstByte), Faulty("faulty", told, FirstByte), Listening("last", told, FirstByte, FirstToken))

    assert [name for name, *_ in told] == ["first", "faulty", "last", "last"]
    (fault,) = logged()
    assert (fault["event"], fault["level"], fault["request_id"], fault["kind"]) == (
        "fault.caught",
        "error",
        "req_test",
        "KeyError",
    )
    assert fault["where"].startswith("note:")
    assert "canary" not in str(fault)


def test_what_nobody_asked_for_is_told_to_nobody(listen):
    logged = listen()
    told = []

    tell(Listening("first", told, FirstByte), facts=(TOKEN,))

    assert told == []
    assert logged() == []


def test_a_cancellation_passes_through():
    with pytest.raises(asyncio.CancelledError):
        tell(Leaving("leaving", [], FirstByte))


class Answering:
    """Notes a fact when it is told another, as the writer of entries does."""

    def handlers(self):
        return {FirstByte: lambda exchange, _: exchange.note(TOKEN)}


def test_a_fact_that_an_observer_notes_reaches_all_before_the_first_is_told_further():
    told = []
    exchange = make_exchange(Answering(), Listening("last", told, FirstByte, FirstToken))

    exchange.note(BYTE)

    assert [fact for _, _, fact in told] == [TOKEN, BYTE]
    assert exchange.journal == [BYTE, TOKEN]


def test_a_link_is_called_in_its_place_only_while_it_is_on():
    told = []
    first, second, late = (Link(part, Listening(part, told, FirstByte)) for part in (Part.LOG, Part.METRICS, Part.PAGE))
    observers = Observers((first, replace(second, is_on=False)), report_defect)
    exchange = Exchange(Arrival("req_test", Dialect.CHAT, Operation.CREATE, {}, b""), 0.0, Deadline(1.0), observers)

    observers.add(late)
    exchange.note(BYTE)
    assert observers.switch(Part.METRICS, on=True)
    assert not observers.switch(Part.METRICS, on=True)
    exchange.note(BYTE)
    assert observers.switch(Part.LOG, on=False)
    exchange.note(BYTE)

    assert [name for name, *_ in told] == ["log", "page", "log", "metrics", "page", "metrics", "page"]
    assert [(link.name, link.is_on) for link in observers.links] == [("log", False), ("metrics", True), ("page", True)]
    assert [observers.is_on(part) for part in (Part.LOG, Part.METRICS, Part.JOBS)] == [False, True, False]
