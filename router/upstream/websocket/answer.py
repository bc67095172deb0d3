"""What has come of one answer on a socket: whether it is the right one, what came before it, and what it answered.

Bounded: a target may send as much as it likes, and none of it is kept beyond what the next request of the session needs.
"""

from collections.abc import Collection

from msgspec import Struct

from router.contract.request import Json
from router.dialects.fields import as_list
from router.upstream.websocket.frames import HEADS, TERMINAL, read, read_id, read_response

_MAX_EARLY_BYTES = 1 << 16
_MAX_ITEMS_BYTES = 1 << 19
"""Of what was answered. A longer answer is not gone on from: the next request sends everything."""


class Answer(Struct, eq=False):
    """Takes the messages of one answer, one after another."""

    past_ids: Collection[str]
    """The responses that this socket had before. One of them that comes again is not the answer to this request."""
    response_id: str = ""
    has_begun: bool = False
    _early: list[bytes] = []
    _early_bytes: int = 0
    _items: list[Json] = []
    _items_bytes: int = 0

    def belongs(self, kind: str, text: bytes) -> bool:
        """Whether a message is one of this answer, and makes sense: its id is the one that it began with, and a new one."""
        if kind not in HEADS:
            return self.has_begun or not self.past_ids
        found = read_id(text)
        if found is None:
            return kind not in TERMINAL
        if found in self.past_ids or (self.response_id and found and found != self.response_id):
            return False
        self.response_id = found or self.response_id
        return bool(self.response_id) or not self.past_ids

    def hold(self, event: bytes) -> None:
        """Keep news that came before the answer: they do not yet say that there will be one. Of too many, the first ones."""
        self._early_bytes += len(event)
        if self._early_bytes <= _MAX_EARLY_BYTES:
            self._early.append(event)

    def release_early(self) -> list[bytes]:
        """The held events. They are returned once."""
        early, self._early = self._early, []
        return early

    def add_item(self, text: bytes) -> None:
        """Keep an item that was answered, unless all of them get too large."""
        self._items_bytes += len(text)
        if self._items_bytes > _MAX_ITEMS_BYTES:
            self._items.clear()
        else:
            self._items.append(read(text).get("item"))

    def find_items(self, last: bytes) -> list[Json] | None:
        """All that was answered, by the answer's last message; None where that is too large to be gone on from."""
        if self._items_bytes > _MAX_ITEMS_BYTES or (not self._items and len(last) > _MAX_ITEMS_BYTES):
            return None
        return self._items or as_list(read_response(last).get("output"))
