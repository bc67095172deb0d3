"""Items that a request names by their ids instead of sending them: found among what is kept here, and put in their places.

The Vercel AI SDK names its earlier answers this way from the second turn on. A host knows only its own items, and a target that
speaks another dialect knows none, so that a reference never leaves us: an item that is not kept here is refused.
"""

import asyncio

from router.contract.caller import Caller
from router.contract.digits import with_digits
from router.contract.errors import ItemForgotten
from router.contract.exchange import OffLoop, work_here
from router.contract.request import Json, RequestView, Transcript
from router.contract.stores import ResponseStore, StoredResponse
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.marks import holds
from router.responses.items import input_items

_KIND = "item_reference"
_MARK = _KIND.encode()
_Held = dict[str, tuple[Json, str]]
"""Items by their ids, each with the target that wrote it."""


def may_name_items(view: RequestView) -> bool:
    """Whether the kind of a reference is anywhere in its bytes."""
    return holds(view.raw, view.body.get("input"), _MARK)


async def look_up(view: RequestView, store: ResponseStore, off_loop: OffLoop = work_here) -> Transcript | None:
    """The input with every named item in its place, and who wrote it. None where it names none."""
    if not may_name_items(view):
        return None
    items = input_items(with_digits(view.raw, view.body))
    named = {index: as_text(item.get("id")) for index, item in enumerate(map(as_object, items)) if item.get("type") == _KIND}
    if not named:
        return None
    found = await _find(named, store, view.caller, off_loop)
    pairs = [found[named[index]] if index in named else (item, "") for index, item in enumerate(items)]
    return Transcript([item for item, _ in pairs], [origin for _, origin in pairs])


async def _find(named: dict[int, str], store: ResponseStore, caller: Caller, off_loop: OffLoop) -> _Held:
    """All named items. The newest response usually holds every one of them, since each holds what led to it."""
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
