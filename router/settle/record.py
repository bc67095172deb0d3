"""Recording a request that is over: its entry is written once, and handed to the ledger."""

from collections.abc import Mapping

from router.contract.exchange import Exchange, Handler
from router.contract.facts import Fact, Recorded, Settled
from router.contract.stores import EntryStore
from router.settle.entry import write_entry


class EntryWriter:
    """Writes the entry of each request, and notes it: the ledger and the log observe that."""

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Settled: _record}


def _record(exchange: Exchange, settled: Settled) -> None:
    exchange.note(Recorded(write_entry(exchange, settled)))


class LedgerKeeper:
    """Hands each entry to the store."""

    def __init__(self, entries: EntryStore) -> None:
        self._entries = entries

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Recorded: self._keep}

    def _keep(self, _: Exchange, recorded: Recorded) -> None:
        self._entries.append(recorded.entry)
