"""A request that is over is written once, and its entry handed to the ledger."""

import pytest

from router.contract.facts import Ending, FirstByte, Read, Recorded, Settled
from router.contract.words import Outcome
from router.settle.record import Recorder
from tests.tools.exchanges import make_exchange
from tests.tools.values import ask, make_target

SETTLED = Settled(3.0, Ending(Outcome.SERVED, 200))


class Entries:
    def __init__(self) -> None:
        self.kept = []

    def append(self, entry) -> None:
        self.kept.append(entry)


class Broken:
    def append(self, entry) -> None:
        raise RuntimeError


class Watches:
    def __init__(self, on_recorded) -> None:
        self._on_recorded = on_recorded

    def handlers(self):
        return {Recorded: lambda _, __: self._on_recorded()}


def test_the_entry_is_noted_right_after_the_end_and_once():
    exchange = make_exchange(Recorder(Entries()), name="req_3")

    exchange.note(Read(ask()))
    exchange.note(SETTLED)

    _, settled, recorded = exchange.journal
    assert isinstance(recorded, Recorded)
    assert settled is SETTLED
    assert (recorded.entry.line.id, recorded.entry.line.model, recorded.entry.line.duration_ms) == ("req_3", "auto", 3000.0)


def test_every_entry_goes_to_the_store_and_nothing_else_does():
    entries = Entries()
    exchange = make_exchange(Recorder(entries), name="req_3")

    exchange.note(FirstByte(make_target()))
    assert entries.kept == []
    exchange.note(SETTLED)

    assert [entry.line.id for entry in entries.kept] == ["req_3"]


def test_the_store_gets_the_entry_that_is_noted_and_gets_it_first():
    entries, at_the_store = Entries(), []
    exchange = make_exchange(Recorder(entries), Watches(lambda: at_the_store.append(len(entries.kept))))

    exchange.note(SETTLED)

    assert entries.kept == [exchange.last(Recorded).entry]
    assert at_the_store == [1]


def test_an_entry_is_noted_though_the_store_has_a_defect():
    noted = []
    exchange = make_exchange(Recorder(Broken()), Watches(lambda: noted.append(True)))

    with pytest.raises(RuntimeError):  # whoever notes the end reports it
        exchange.note(SETTLED)

    assert noted == [True]
