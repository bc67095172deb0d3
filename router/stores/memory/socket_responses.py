"""Responses of one WebSocket: the newest of each lane, while it is open."""

from collections import OrderedDict
from collections.abc import Collection

from router.contract.caller import Caller
from router.contract.stores import ResponseStore, StoredResponse

_MAX_RESPONSES = 64
"""One per lane of a socket, and as many fork parents."""
_MAX_BYTES = 64 << 20


class SocketResponses:
    """Looks in a socket's own responses first, then in the common store."""

    def __init__(self, shared: ResponseStore) -> None:
        self._shared = shared
        self._own: OrderedDict[str, StoredResponse] = OrderedDict()
        self._bytes = 0

    def keep(self, response: StoredResponse, *, for_long: bool) -> None:
        """Evicts the least recently used, never the newest."""
        self.evict(response.id)
        self._own[response.id] = response
        self._bytes += len(response.raw)
        while len(self._own) > _MAX_RESPONSES or (self._bytes > _MAX_BYTES and len(self._own) > 1):
            self.evict(next(iter(self._own)))

    def __contains__(self, response_id: str) -> bool:
        return response_id in self._own

    async def find(self, response_id: str, caller: Caller) -> StoredResponse | None:
        own = self._own.get(response_id)
        if own is None or own.caller != caller:
            return await self._shared.find(response_id, caller)
        self._own.move_to_end(response_id)
        return own

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        """Only in the common store: a response with `store: false` can be continued here, not quoted."""
        return await self._shared.find_holder(item_ids, caller)

    async def forget(self, response_id: str, caller: Caller) -> bool:
        own = self._own.get(response_id)
        was_own = own is not None and own.caller == caller and self.evict(response_id)
        return await self._shared.forget(response_id, caller) or was_own

    async def is_denied(self, response_id: str, caller: Caller) -> bool:
        """Never asks a target about unknown ids: the client then sends its whole history."""
        return True

    def clear(self) -> None:
        self._own.clear()
        self._bytes = 0

    async def close(self) -> None:
        self.clear()

    def evict(self, response_id: str) -> bool:
        """Forget one of this socket's own; the common store may still have it."""
        dropped = self._own.pop(response_id, None)
        if dropped is not None:
            self._bytes -= len(dropped.raw)
        return dropped is not None
