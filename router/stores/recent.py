"""The last entries as rows, which every store of entries reads first."""

from collections import OrderedDict
from collections.abc import Callable
from math import inf

from router.contract.caller import Caller
from router.contract.entry import COLUMNS, Entry, values_of
from router.contract.request import JsonObject

_MAX_REMEMBERED = 512
_REMEMBERED_SECONDS = 3_600.0
_EXPLAINED = len(COLUMNS) + 2

Row = tuple[object, ...]
Explain = Callable[[Row], JsonObject | None]
"""Turns a row of `contract.entry.COLUMNS`, `decision` and `attempts` into a decision in full."""


def row_of(entry: Entry) -> Row:
    """The columns of a line, then decision and attempts as JSON, prompt and answer."""
    return (*values_of(entry.line), entry.decision, entry.attempts, entry.prompt_text, entry.answer_text)


class RecentEntries:
    """The last entries with a decision: a bounded number, none older than an hour."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Entry] = OrderedDict()
        self._forget_at = -inf

    def add(self, entry: Entry) -> None:
        line, known = entry.line, self._known
        known[line.id] = entry
        if len(known) > _MAX_REMEMBERED or line.at > self._forget_at:
            self._forget_oldest(line.at)

    def _forget_oldest(self, now: float) -> None:
        if len(self._known) > _MAX_REMEMBERED or now - self._oldest_at > _REMEMBERED_SECONDS:
            self._known.popitem(last=False)
        self._forget_at = self._oldest_at + _REMEMBERED_SECONDS

    @property
    def _oldest_at(self) -> float:
        return next(iter(self._known.values())).line.at

    def find(self, request_id: str, caller: Caller | None, explain: Explain) -> JsonObject | None:
        """The prompt is shown to its own caller only."""
        entry = self._known.get(request_id)
        if entry is None or (caller is not None and entry.line.caller != caller.name):
            return None
        found = explain(row_of(entry)[:_EXPLAINED])
        return found if found is None or caller is None else {**found, "person_text": entry.person_text}
