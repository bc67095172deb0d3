"""The interface of response stores that routers share. `Responses` asks one after another."""

from collections.abc import Collection
from typing import NamedTuple, Protocol

from router.contract.caller import Caller
from router.contract.stores import StoredResponse

Key = tuple[Caller, str]


class Known(NamedTuple):
    response: StoredResponse | None = None
    is_deleted: bool = False
    is_others: bool = False
    """Whether only another caller has a response of this id."""


UNKNOWN, DELETED, OTHERS = Known(), Known(is_deleted=True), Known(is_others=True)


class Place(Protocol):
    """A response store used by many routers at once. Every method raises `StoreUnusable` while it is away."""

    async def keep(self, response: StoredResponse, *, is_late: bool = False) -> None:
        """Store a response unless its id was deleted. A late one never replaces a newer one."""
        ...

    async def find(self, response_id: str, caller: Caller) -> Known:
        """Includes writes this router has begun."""
        ...

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None: ...

    async def sort_out(self, keys: Collection[Key]) -> tuple[list[Key], list[Key]]:
        """The keys that are missing here and may be added, and those that were deleted."""
        ...

    async def delete(self, response_id: str, caller: Caller) -> None:
        """Remembered for as long as any router may have a copy."""
        ...
