"""Which message threads began alike. One that was lost comes again whole, without its name: it is known by its beginning."""

from collections import OrderedDict

import orjson

from router.contract.stores import SessionStore

_MAX_BEGINNINGS = 1_024
_MAX_ALIKE = 8
"""Of so many threads that begin alike, the newest, each is known again."""


class ThreadBeginnings:
    """The names of threads by a digest of their beginning, the newest first. It survives a restart, as sessions do."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._known: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    async def find(self, beginning: str) -> tuple[str, ...]:
        """The threads that began so."""
        names = self._known.get(beginning)
        if names is None:
            names = _read(await self._store.load(beginning))
            names = self._known.setdefault(beginning, names)  # another thread may have begun meanwhile
            self._forget_oldest()
        return names

    def add(self, beginning: str, name: str, at: float) -> None:
        """A thread began so."""
        others = [other for other in self._known.get(beginning, ()) if other != name]
        self._known[beginning] = names = (name, *others)[:_MAX_ALIKE]
        self._known.move_to_end(beginning)
        self._forget_oldest()
        self._store.save(beginning, at, orjson.dumps(names))

    def _forget_oldest(self) -> None:
        if len(self._known) > _MAX_BEGINNINGS:
            self._known.popitem(last=False)


def _read(stored: bytes | None) -> tuple[str, ...]:
    try:
        names = orjson.loads(stored or b"[]")
    except orjson.JSONDecodeError:
        return ()
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
