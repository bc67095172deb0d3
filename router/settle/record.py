"""Recording a request that is over: its entry is written once, and handed to the ledger."""

from collections.abc import Mapping

from router.contract.exchange import Exchange, Handler
from router.contract.facts import Fact, Recorded, Settled
from router.contract.stores import EntryStore
from router.settle.entry import write_entry


class Recorder:
    """Writes the entry of each request, hands it to the store, and notes it: the log observes that."""

    def __init__(self, entries: EntryStore) -> None:
        self._entries = entries

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Settled: self._record}

    def _record(self, exchange: Exchange, settled: Settled) -> None:
        entry = write_entry(exchange, settled)
        try:
            self._entries.append(entry)
        finally:  # a store's defect costs nobody else the entry
            exchange.note(Recorded(entry))
