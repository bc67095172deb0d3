"""Writes each finished request's entry once, and hands it to the ledger."""

import asyncio
import time
from asyncio import get_running_loop
from collections.abc import Mapping

from router.contract.caller import Caller
from router.contract.entry import Entry
from router.contract.exchange import Exchange, Handler
from router.contract.facts import Fact, Recorded, Settled
from router.contract.request import Json
from router.contract.stores import EntryStore
from router.contract.words import Outcome
from router.settle.entry import write_entry
from router.telemetry import events

_SERVED = Outcome.SERVED
_LATER_SECONDS = 0.005
_MAX_ENTRIES = 64
"""More would hold up the event loop."""


class Recorder:
    """Writes each request's entry to the store, and notes it for the log.

    Entries are written in batches, a few milliseconds after the end: the next request does not wait, and repeated work in a row
    is cheaper. Failures, and everything in plain mode, are written at once. Looking up a decision writes all waiting entries
    first.
    """

    def __init__(self, entries: EntryStore, *, plain: bool = False) -> None:
        self._entries, self._max_entries = entries, 1 if plain else _MAX_ENTRIES
        self._ended: list[tuple[Exchange, Settled, float]] = []
        self._timer: asyncio.TimerHandle | None = None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Settled: self._note_end}

    def _note_end(self, exchange: Exchange, settled: Settled) -> None:
        ended = self._ended
        ended.append((exchange, settled, time.time()))
        if settled.ending.outcome is not _SERVED or len(ended) >= self._max_entries:
            self.write()
        elif self._timer is None:
            self._timer = get_running_loop().call_later(_LATER_SECONDS, self._write_waiting)

    def write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._write_waiting()

    def _write_waiting(self) -> None:
        ended, self._ended, self._timer = self._ended, [], None
        if len(ended) > 1:
            with events.together():
                self._record_all(ended)
        else:
            self._record_all(ended)

    def _record_all(self, ended: list[tuple[Exchange, Settled, float]]) -> None:
        written: list[tuple[Exchange, Entry]] = []
        for exchange, settled, at in ended:
            try:
                written.append((exchange, write_entry(exchange, settled, at)))
            except Exception as error:  # noqa: BLE001  the defect of one entry must not cost the others
                exchange.observers.report(exchange, error)
        for exchange, entry in written:
            try:
                self._entries.append(entry)
            except Exception as error:  # noqa: BLE001  nor may the store's: the log still has it
                exchange.observers.report(exchange, error)
        for exchange, entry in written:
            exchange.note(Recorded(entry))

    # As an `EntryStore`.

    def append(self, entry: Entry) -> None:
        self._entries.append(entry)

    async def sync(self) -> None:
        self.write()
        await self._entries.sync()

    async def find_decision(self, request_id: str, caller: Caller | None) -> Mapping[str, Json] | None:
        """Finds even a request that just ended."""
        self.write()
        return await self._entries.find_decision(request_id, caller)

    async def close(self) -> None:
        self.write()
        await self._entries.close()
