"""The last decisions, in memory: what every store of entries answers from first."""

from collections import OrderedDict

import orjson

from router.contract.caller import Caller
from router.contract.entry import Entry
from router.contract.request import JsonObject

_MAX_REMEMBERED = 512
_REMEMBERED_SECONDS = 3_600.0


class RecentDecisions:
    """The last decisions, as JSON: at most so many, and none for longer than an hour."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Caller, float, str, str | None]] = OrderedDict()

    def add(self, entry: Entry, explained: JsonObject) -> str:
        """Remember a decision, with what the person typed. Answers it as JSON, without that unless the entry keeps text.

        `explained` is this call's to change. Raises `orjson.JSONEncodeError` where it cannot be written.
        """
        person_text = explained.get("person_text")
        if entry.prompt_text is None:
            explained["person_text"] = None
        written = orjson.dumps(explained).decode()
        self._known[entry.id] = (entry.caller, entry.at, written, person_text if isinstance(person_text, str) else None)
        oldest = next(iter(self._known.values()))
        if len(self._known) > _MAX_REMEMBERED or entry.at - oldest[1] > _REMEMBERED_SECONDS:
            self._known.popitem(last=False)
        return written

    def find(self, request_id: str, caller: Caller) -> JsonObject | None:
        """The decision, if it is still remembered and this caller's own."""
        known = self._known.get(request_id)
        if known is None or known[0] != caller:
            return None
        found: JsonObject = orjson.loads(known[2])
        return {**found, "person_text": known[3]}
