"""The state of one answer on a socket, bounded to what the session's next request needs."""

from collections.abc import Collection

from msgspec import Struct

from router.contract.relay import Headers
from router.contract.request import Json
from router.dialects.fields import as_list
from router.dialects.transports import LIMITS_EVENT, limits_as_headers
from router.upstream.websocket.frames import HEADS, TERMINAL, as_event, read, read_id, read_response

_MAX_EARLY_BYTES = 1 << 16
_MAX_ITEMS_BYTES = 1 << 19
"""Longer answers are not continued from: the next request sends everything."""


class Answer(Struct, eq=False):
    past_ids: Collection[str]
    """Earlier responses of this socket, whose messages do not answer this request."""
    response_id: str = ""
    has_begun: bool = False
    limits: Headers = ()
    """What the target said about a plan's limits before it began."""
    _early: list[bytes] = []
    _early_bytes: int = 0
    _items: list[Json] = []
    _items_bytes: int = 0

    def belongs(self, kind: str, text: bytes) -> bool:
        """Whether a message belongs to this answer: its id is new, or the one that the answer began with."""
        if kind not in HEADS:
            return self.has_begun or not self.past_ids
        found = read_id(text)
        if found is None:
            return kind not in TERMINAL
        if found in self.past_ids or (self.response_id and found and found != self.response_id):
            return False
        self.response_id = found or self.response_id
        return bool(self.response_id) or not self.past_ids

    def hold(self, kind: str, text: bytes) -> None:
        """Hold an event that came before the answer, up to a limit: no answer may follow."""
        self._early_bytes += len(text)
        if self._early_bytes <= _MAX_EARLY_BYTES:
            self._early.append(as_event(kind, text))
            if kind == LIMITS_EVENT:
                self.limits = limits_as_headers(read(text))

    def release_early(self) -> list[bytes]:
        early, self._early = self._early, []
        return early

    def add_item(self, text: bytes) -> None:
        self._items_bytes += len(text)
        if self._items_bytes > _MAX_ITEMS_BYTES:
            self._items.clear()
        else:
            self._items.append(read(text).get("item"))

    def find_items(self, last: bytes) -> list[Json] | None:
        """The answered items; None if too large to continue from."""
        if self._items_bytes > _MAX_ITEMS_BYTES or (not self._items and len(last) > _MAX_ITEMS_BYTES):
            return None
        return self._items or as_list(read_response(last).get("output"))
