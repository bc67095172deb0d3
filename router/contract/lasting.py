"""What stays open for a caller after its beginning: WebSockets and live feeds."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from router.contract.caller import Caller
from router.contract.keys import KeyRing, rights_of
from router.contract.rights import NOTHING


class Held(Struct, eq=False, frozen=True):
    kind: Literal["sockets", "feeds"]
    caller: Caller
    key: str | None
    end: Callable[[], None] = lambda: None
    """Close it. Not needed where it asks for its rights again and again."""


class Lasting:
    """All that is open in this process."""

    def __init__(self) -> None:
        self._open: set[Held] = set()

    def hold(self, held: Held) -> Held:
        self._open.add(held)
        return held

    def release(self, held: Held) -> None:
        self._open.discard(held)

    def end_revoked(self, keys: KeyRing, now: float) -> list[Held]:
        """Close what was opened with keys that no longer work. Returns what was closed."""
        ended = [held for held in self._open if rights_of(keys, held.caller, held.key, now) is NOTHING]
        for held in ended:
            self._open.discard(held)
            held.end()
        return ended
