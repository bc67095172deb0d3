"""Where routers keep responses together: what each such place can do. `SharedResponses` asks them one after another."""

from collections.abc import Collection
from typing import NamedTuple, Protocol

from router.contract.caller import Caller
from router.contract.stores import StoredResponse


class Known(NamedTuple):
    response: StoredResponse | None = None
    is_deleted: bool = False
    is_others: bool = False
    """Whether it is known as somebody else's, and not as this caller's."""


UNKNOWN, DELETED, OTHERS = Known(), Known(is_deleted=True), Known(is_others=True)


class Home(Protocol):
    """A place that many routers use at once. Everything raises `StoreUnusable` while it cannot be asked."""

    async def keep(self, response: StoredResponse, *, is_late: bool = False) -> None:
        """Store a response, unless it was deleted: an id is used once. One that comes late never replaces a newer one."""
        ...

    async def look(self, response_id: str, caller: Caller) -> Known:
        """What is known of an id. What this router has begun to store is known."""
        ...

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        """The newest response of this caller that holds any of these items."""
        ...

    async def bury(self, response_id: str, caller: Caller) -> None:
        """Delete a response, and remember that it was deleted, for as long as any router may have a copy."""
        ...
