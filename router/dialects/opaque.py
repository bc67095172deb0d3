"""State that only its maker can read: reasoning items, encrypted content, signed thinking blocks.

Sessions remember the maker of each piece by a key. Other targets get the conversation without it; the caller keeps it and sends
it when the turn returns to its maker.
"""

from collections.abc import Iterator
from itertools import chain

from router.contract.request import Json, RequestView
from router.dialects.fields import as_list, as_object
from router.dialects.table import SPECS


def keys_of(view: RequestView, start: int = 0) -> Iterator[str]:
    return chain.from_iterable(map(SPECS[view.dialect].opaque_keys, view.conversation.items[start:]))  # type: ignore[arg-type]  # objects


def refused_by(target: str) -> str:
    """The origin recorded for an item of unknown maker that this target refused."""
    return f"!{target}"


def is_foreign(origin: str | None, target: str) -> bool:
    """Whether a target must not get a piece. One of unknown origin may be its own."""
    if origin is None or origin == target:
        return False
    return origin == refused_by(target) if origin.startswith("!") else True


def all_keys(view: RequestView) -> tuple[str, ...]:
    spec = SPECS[view.dialect]
    return tuple(key for item in as_list(view.body.get(spec.list_field)) for key in spec.opaque_keys(as_object(item)))


def keys_for(view: RequestView, target: str) -> tuple[str, ...]:
    return tuple(key for key in all_keys(view) if not is_foreign(view.origins.get(key), target))


def without_foreign(view: RequestView, target: str) -> list[Json] | None:
    """The conversation without other targets' state; None if unchanged."""
    origins = view.origins
    if not any(is_foreign(origin, target) for origin in set(origins.values())):  # many pieces, few makers
        return None
    spec = SPECS[view.dialect]
    items = as_list(view.body.get(spec.list_field))
    kept = spec.without_opaque(items, lambda key: is_foreign(origins.get(key), target))
    return kept if len(kept) < len(items) or kept != items else None
