"""The names of tools over a bridge: dialects differ in how long they may be, and one of them has tools in groups."""

import re
from hashlib import blake2b

_MAX_NAME = 64
"""The shortest limit of all dialects. Messages take twice as much, but what is given back whole may be short everywhere."""
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class ToolNames:
    """By which name a target knows each tool of one request: within what every host takes, and no two alike.

    A name that fits stays as it is. Another is made from the tool's own, the same in every request, so that the beginning
    of a prompt does not change from turn to turn.
    """

    __slots__ = ("_owners", "_seen")

    def __init__(self) -> None:
        self._seen: dict[tuple[str | None, str], str] = {}
        self._owners: set[str] = set()

    def seen(self, name: str, namespace: str | None = None) -> str:
        """The name for the target of a tool that the caller knows by this one."""
        tool = (namespace or None, name)
        found = self._seen.get(tool)
        if found is None:
            found = self._seen[tool] = self._make(tool)
            self._owners.add(found)
        return found

    def _make(self, tool: tuple[str | None, str]) -> str:
        namespace, name = tool
        given = f"{namespace}__{name}" if namespace else name
        plain = _NO_NAME.sub("_", given)
        if plain == given and len(plain) <= _MAX_NAME and plain not in self._owners:
            return plain
        digest = blake2b(f"{namespace or ''}\0{name}".encode("utf-8", "replace")).hexdigest()
        # Somebody may have named a tool as we would: then more of the digest tells them apart.
        sizes = range(8, _MAX_NAME)
        made = (f"{plain[: _MAX_NAME - size - 1]}_{digest[:size]}" for size in sizes)
        return next(candidate for candidate in made if candidate not in self._owners)
