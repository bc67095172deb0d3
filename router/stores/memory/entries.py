"""Entries without a ledger: only the last decisions are kept."""

from collections.abc import Mapping, Sequence

from router.contract.caller import Caller
from router.contract.entry import Entry
from router.contract.request import Json
from router.contract.stores import Versioned
from router.stores.recent import Explain, RecentEntries


class MemoryEntries:
    def __init__(self, explain: Explain) -> None:
        self._explain = explain
        self._recent = RecentEntries()

    def append(self, entry: Entry) -> None:
        if entry.decision is not None:
            self._recent.add(entry)

    async def sync(self) -> None:
        """Nothing outlives the process."""

    async def find_decision(self, request_id: str, caller: Caller | None) -> Mapping[str, Json] | None:
        return self._recent.find(request_id, caller, self._explain)

    async def close(self) -> None:
        """Nothing to write."""


_NOTHING = Versioned()


class NoSessions:
    """For a router without a ledger, and for dry runs."""

    is_shared = False

    async def load(self, key: str) -> Versioned:
        return _NOTHING

    async def load_all(self, keys: Sequence[str]) -> Sequence[Versioned]:
        return [_NOTHING] * len(keys)

    def swap(self, key: str, version: int, at: float, state: bytes) -> bool:
        """Never refuses: no state is kept."""
        return True

    async def close(self) -> None:
        """Nothing to write."""
