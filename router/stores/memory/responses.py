"""Responses in memory, with an optional disk store for long-kept ones and misses."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection

from router.contract.caller import Caller
from router.contract.clock import CLOCK
from router.contract.share import Holdings
from router.contract.stores import ResponseStore, StoredResponse

_MAX_RESPONSES = 1_024
_MAX_BYTES = 64 << 20
_MAX_SECONDS = 3_600.0
_MAX_OWNERS = 65_536
_NOBODY = Caller("")
_ID_BYTES = 128
"""Approximate memory of an item's id."""


class MemoryResponses:
    """The last hour's responses. When full, the oldest of the caller that has most is evicted."""

    def __init__(
        self,
        behind: ResponseStore | None = None,
        *,
        max_responses: int = _MAX_RESPONSES,
        max_bytes: int = _MAX_BYTES,
        max_owners: int = _MAX_OWNERS,
        clock: Callable[[], float] = CLOCK.trusted,
    ) -> None:
        self._behind, self._clock = behind, clock
        self._max_responses, self._max_bytes, self._max_owners = max_responses, max_bytes, max_owners
        self._kept: OrderedDict[tuple[Caller, str], StoredResponse] = OrderedDict()
        self._counts, self._bytes = Holdings(), Holdings()
        # Ids outlive their responses: a target may know one that was deleted here, or another caller's.
        self._owners: dict[str, Caller] = {}
        self._ids: defaultdict[Caller, OrderedDict[str, None]] = defaultdict(OrderedDict)
        """Ids in `_owners` by the caller that had them, oldest first, also of what it deleted."""

    def keep(self, response: StoredResponse, *, for_long: bool) -> None:
        key = (response.caller, response.id)
        self._drop(key)
        self._kept[key] = response
        self._counts.add(response.caller, 1)
        self._bytes.add(response.caller, _size(response))
        self._own(response.id, response.caller, response.caller)
        self._forget_oldest()
        if for_long and self._behind is not None:
            self._behind.keep(response, for_long=True)

    def list_kept(self) -> list[StoredResponse]:
        """Oldest first."""
        self._forget_oldest()
        return list(self._kept.values())

    async def find(self, response_id: str, caller: Caller) -> StoredResponse | None:
        self._forget_oldest()
        found = self._kept.get((caller, response_id))
        if found is None and self._behind is not None and self._owners.get(response_id) != _NOBODY:
            found = await self._behind.find(response_id, caller)
        return found if self._owners.get(response_id) != _NOBODY else None  # deleted meanwhile?

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        """The newest in memory, else on disk unless deleted meanwhile."""
        self._forget_oldest()
        for response in reversed(self._kept.values()):
            if response.caller == caller and not response.item_ids.isdisjoint(item_ids):
                return response
        found = await self._behind.find_holder(item_ids, caller) if self._behind is not None else None
        return found if found is not None and self._owners.get(found.id) != _NOBODY else None

    async def forget(self, response_id: str, caller: Caller) -> bool:
        """On disk first: if that fails, nothing has changed."""
        self._forget_oldest()
        found = self._behind is not None and await self._behind.forget(response_id, caller)
        if self._drop((caller, response_id)) or found:
            self._own(response_id, _NOBODY, caller)
            found = True
        return found

    async def is_denied(self, response_id: str, caller: Caller) -> bool:
        """Whether the id was deleted or is another caller's."""
        if self._owners.get(response_id, caller) != caller:
            return True
        return self._behind is not None and await self._behind.is_denied(response_id, caller)

    async def close(self) -> None:
        self._kept.clear()
        self._counts, self._bytes = Holdings(), Holdings()
        if self._behind is not None:
            await self._behind.close()

    def _own(self, response_id: str, owner: Caller, caller: Caller) -> None:
        """Note whose an id is now. `caller` had it, and loses its oldest if it has most."""
        self._owners[response_id] = owner
        ids = self._ids[caller]
        ids[response_id] = None
        ids.move_to_end(response_id)
        if len(self._owners) > self._max_owners:
            most = max(self._ids, key=lambda name: len(self._ids[name]))
            oldest, _ = self._ids[most].popitem(last=False)
            self._owners.pop(oldest, None)

    def _drop(self, key: tuple[Caller, str]) -> bool:
        response = self._kept.pop(key, None)
        if response is not None:
            self._counts.add(response.caller, -1)
            self._bytes.add(response.caller, -_size(response))
        return response is not None

    def _forget_oldest(self) -> None:
        oldest = self._clock() - _MAX_SECONDS
        while self._kept:
            key, response = next(iter(self._kept.items()))
            if response.at > oldest:
                break
            self._drop(key)
        while self._counts.total > self._max_responses:
            self._evict_from(self._counts.find_most())
        while self._bytes.total > self._max_bytes:
            self._evict_from(self._bytes.find_most())

    def _evict_from(self, caller: Caller) -> None:
        self._drop(next(key for key in self._kept if key[0] == caller))


def _size(response: StoredResponse) -> int:
    return len(response.raw) + _ID_BYTES * len(response.item_ids)
