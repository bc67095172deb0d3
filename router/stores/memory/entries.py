"""No ledger: entries are not kept, and the last decisions can still be asked for."""

from collections.abc import Mapping

from router.contract.caller import Caller
from router.contract.entry import Entry
from router.contract.request import Json
from router.stores.recent import Explain, RecentEntries


class MemoryEntries:
    """Keeps only the last entries."""

    def __init__(self, explain: Explain) -> None:
        self._explain = explain
        self._recent = RecentEntries()

    def append(self, entry: Entry) -> None:
        if entry.decision is not None:
            self._recent.add(entry)

    async def sync(self) -> None:
        """Nothing outlives the process."""

    async def find_decision(self, request_id: str, caller: Caller | None) -> Mapping[str, Json] | None:
        """The explanation of a request, if it is recent."""
        return self._recent.find(request_id, caller, self._explain)

    async def close(self) -> None:
        """There is nothing to write."""
