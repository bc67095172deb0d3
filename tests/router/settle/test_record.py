"""A request that is over is written once, and its entry handed to the ledger."""

from router.contract.facts import Ending, FirstByte, Read, Recorded, Settled
from router.contract.words import Outcome
from router.settle.record import EntryWriter, LedgerKeeper
from tests.tools.exchanges import make_exchange
from tests.tools.kept import make_entry
from tests.tools.values import ask, make_target

SETTLED = Settled(3.0, Ending(Outcome.SERVED, 200))


class Entries:
    def __init__(self) -> None:
        self.kept = []

    def append(self, entry) -> None:
        self.kept.append(entry)


def test_the_entry_is_noted_right_after_the_end_and_once():
    exchange = make_exchange(EntryWriter(), name="req_3")

    exchange.note(Read(ask()))
    exchange.note(SETTLED)

    _, settled, recorded = exchange.journal
    assert isinstance(recorded, Recorded)
    assert settled is SETTLED
    assert (recorded.entry.id, recorded.entry.model, recorded.entry.duration_ms) == ("req_3", "auto", 3000.0)


def test_every_entry_goes_to_the_store_and_nothing_else_does():
    entries = Entries()
    exchange = make_exchange(EntryWriter(), LedgerKeeper(entries), name="req_3")

    exchange.note(FirstByte(make_target()))
    assert entries.kept == []
    exchange.note(SETTLED)

    assert [entry.id for entry in entries.kept] == ["req_3"]


def test_the_store_gets_the_entry_that_was_noted():
    entries, entry = Entries(), make_entry()

    make_exchange(LedgerKeeper(entries)).note(Recorded(entry))

    assert entries.kept == [entry]
