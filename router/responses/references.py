"""Items that a request names by their ids instead of sending them: found among what is kept here, and put in their places.

The Vercel AI SDK names its earlier answers this way from the second turn on. A host knows only its own items, and a target that
speaks another dialect knows none, so that a reference never leaves us: an item that is not kept here is refused.
"""

import asyncio

from router.contract.caller import Caller
from router.contract.errors import ItemForgotten
from router.contract.exchange import OffLoop
from router.contract.request import Json
from router.contract.stores import ResponseStore, StoredResponse
from router.dialects.fields import as_list, as_object, as_text

REFERENCE = "item_reference"
"""The kind of an item that names another."""
_Held = dict[str, tuple[Json, str]]
"""Items by their ids, each with the target that wrote it."""


async def find_items(named: dict[int, str], store: ResponseStore, caller: Caller, off_loop: OffLoop) -> _Held:
    """All items that an input names, by their indexes there. Raises `ItemForgotten`.

    The newest response usually holds every one of them, since each holds what led to it.
    """
    wanted, found = set(named.values()), _Held()
    while missing := wanted - found.keys():
        if found:
            await asyncio.sleep(0)  # one request may name items of a thousand responses: others have their turns meanwhile
        holder = await store.find_holder(missing, caller)
        held = await off_loop(_items_of, holder) if holder is not None else _Held()
        found |= {name: held[name] for name in missing & held.keys()}
        if missing.isdisjoint(held):
            index = next(index for index, name in named.items() if name in missing)
            raise ItemForgotten(
                f"Item with id '{named[index][:80]}' not found: it may have expired, been deleted, or been created with"
                " store: false. Send the item itself",
                param=f"input[{index}].id",
            )
    return found


def _items_of(holder: StoredResponse) -> _Held:
    history, response = holder.read()
    whole = history.then(as_list(response.get("output")), holder.target)
    pairs = zip(whole.items, whole.origins, strict=True)
    return {name: (item, origin) for item, origin in pairs if (name := as_text(as_object(item).get("id")))}
