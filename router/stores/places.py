"""Places where routers keep responses together: what each of them does. `Responses` asks one after another."""

from collections.abc import Collection
from typing import NamedTuple, Protocol

from router.contract.caller import Caller
from router.contract.stores import StoredResponse

Key = tuple[Caller, str]
"""A response by its caller and its id."""


class Known(NamedTuple):
    """What a place knows of an id."""

    response: StoredResponse | None = None
    is_deleted: bool = False
    is_others: bool = False
    """Whether only another caller has a response of this id."""


UNKNOWN, DELETED, OTHERS = Known(), Known(is_deleted=True), Known(is_others=True)


class Place(Protocol):
    """A store that many routers use at once. Everything raises `StoreUnusable` while it is away."""

    async def keep(self, response: StoredResponse, *, is_late: bool = False) -> None:
        """Store a response, unless it was deleted: an id is used once. One that comes late never replaces a newer one."""
        ...

    async def find(self, response_id: str, caller: Caller) -> Known:
        """What is known of an id. What this router has begun to store counts."""
        ...

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        """The newest response of this caller that holds any of these items."""
        ...

    async def sort_out(self, keys: Collection[Key]) -> tuple[list[Key], list[Key]]:
        """Which of these it does not have and could, and which were deleted."""
        ...

    async def delete(self, response_id: str, caller: Caller) -> None:
        """Delete a response, and remember that it was deleted, for as long as any router may have a copy."""
        ...
