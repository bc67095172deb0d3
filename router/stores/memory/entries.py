"""No ledger: entries are not kept, and the last decisions can still be asked for."""

import contextlib
from collections.abc import Callable, Mapping

import orjson

from router.contract.caller import Caller
from router.contract.entry import Entry
from router.contract.request import Json, JsonObject
from router.stores.recent import RecentDecisions


class MemoryEntries:
    """Keeps only the last decisions."""

    def __init__(self, explain: Callable[[Entry], JsonObject]) -> None:
        self._explain = explain
        self._recent = RecentDecisions()

    def append(self, entry: Entry) -> None:
        """Remember the entry's decision."""
        if entry.decision is not None:
            with contextlib.suppress(orjson.JSONEncodeError):
                self._recent.add(entry, self._explain(entry))

    async def find_decision(self, request_id: str, caller: Caller) -> Mapping[str, Json] | None:
        """The explanation of a request, if it is recent."""
        return self._recent.find(request_id, caller)

    async def close(self) -> None:
        """There is nothing to write."""
