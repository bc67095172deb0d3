"""Sources of the past: a local ledger, or a router with the caller's own turns (`/tandem/past/…`).

Both answer the same questions with the same types. All of it raises `Ended`.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from router.cli import Ended
from router.cli.asking import Refused, Unreachable, ask_object, explain_refusal
from router.cli.common import say
from router.contract.entry import LINE_FIELDS, read_line
from router.contract.past import CallSums, LookSums, SessionSums
from router.contract.request import JsonObject
from router.contract.stores import StoreUnusable
from router.contract.words import Tier
from router.dialects.fields import as_object
from router.past.answers import QUESTIONS, Query
from router.past.rows import Call, Kept
from router.stores.sqlite.marks import judge_turn
from router.stores.sqlite.past import SqliteEntryReader

_ASK_SECONDS = 60.0
"""Sums of a large ledger take time."""
_Row = TypeVar("_Row", SessionSums, CallSums, LookSums)
Found = TypeVar("Found")
Newest = tuple[list[Call], dict[tuple[str, str], int]]
"""Calls, oldest first, and each session's number of turns before them."""


class PastTurn(NamedTuple):
    """The first request of a turn, or a named one, with its decision."""

    id: str
    tier: Tier | None
    target: str | None
    because: str | None
    decision: JsonObject | None
    """None if unreadable."""


class Marked(NamedTuple):
    """The effect of a person's mark."""

    is_marked: bool
    was_unmarked: bool


class Past:
    """Turns of a local ledger or a router (`past.answers`)."""

    place: str
    """For messages."""

    def read_newest(self, since: float, turns: int, caller: str | None) -> Newest:
        told = self._ask("turns", Query(since, turns, caller))
        calls = [
            Call(line, Kept(tier=call["decided"]), Tier(mark) if (mark := call.get("should_be")) else None)
            for call in told["calls"]
            if (line := read_line(map(call.get, LINE_FIELDS))) is not None
        ]
        return calls, {(one["caller"], one["session"]): one["turns"] for one in told["earlier"]}

    def read_sessions(self, since: float, limit: int, caller: str | None) -> list[SessionSums]:
        return _rows(SessionSums, self._ask("sessions", Query(since, limit, caller))["sessions"])

    def read_sums(self, since: float) -> tuple[list[CallSums], JsonObject, list[JsonObject]]:
        """The sums, what Tandem was worth, and how turns on fast ended (`past.savings`)."""
        told = self._ask("sums", Query(since))
        return _rows(CallSums, told["calls"]), told["savings"], told["kinds"]

    def read_looks(self, since: float) -> list[LookSums]:
        return _rows(LookSums, self._ask("looks", Query(since))["looks"])

    def read_redone(self, since: float) -> JsonObject:
        """The part of the savings."""
        return as_object(self._ask("sums", Query(since))["savings"]["redone"])

    def find_turn(self, request_id: str | None, *, begins: bool = False) -> PastTurn:
        """The last turn, a request by id, or with `begins` the turn of that request."""
        if request_id is not None and begins:
            self.find_turn(request_id)
        told = self._ask("turn", Query(request=request_id, begins=begins))
        if (turn := told["turn"]) is None:
            raise no_turn(self.place, request_id, told["undecided"], begins=begins)
        tier = Tier(turn["tier"]) if turn["tier"] in tuple(Tier) else None
        return PastTurn(turn["id"], tier, turn["target"], turn["because"], turn["decision"])

    def mark(self, turn_id: str, should_be: Tier) -> Marked:
        raise NotImplementedError

    def _ask(self, question: str, query: Query) -> Any:
        raise NotImplementedError


class LedgerPast(Past):
    def __init__(self, path: Path) -> None:
        self.path, self.place = path, str(path)

    def _ask(self, question: str, query: Query) -> Any:
        return self._look(lambda ledger: QUESTIONS[question](ledger, query))

    def mark(self, turn_id: str, should_be: Tier) -> Marked:
        turn = self._look(lambda ledger: ledger.find_beginning(turn_id))
        assert turn is not None, "it was found a moment ago"
        try:
            judged = judge_turn(self.path, turn, should_be)
            if (migrated := judged.migrated) is not None:
                kept = f"the older file is kept as {migrated.copy.name}"
                say(f"{migrated.file} was migrated to schema {migrated.version}: {kept}")
            return Marked(judged.is_marked, judged.was_unmarked)
        except StoreUnusable as error:
            raise Ended(1, str(error)) from error

    def _look(self, read: Callable[[SqliteEntryReader], Found]) -> Found:
        ledger = SqliteEntryReader(self.path)
        try:
            ledger.wait_for_writer()
            return read(ledger)
        except StoreUnusable as error:
            raise Ended(1, str(error)) from error


class RouterPast(Past):
    """A caller's own turns at a router; all turns for an admin's key."""

    def __init__(self, url: str, key: str) -> None:
        self.place, self._key = url, key

    def mark(self, turn_id: str, should_be: Tier) -> Marked:
        told = self._get(f"/tandem/wrong/{quote(turn_id, safe='')}", msgspec.json.encode({"tier": should_be}))
        return Marked(told["marked"] is not None, bool(told.get("unmarked")))

    def _ask(self, question: str, query: Query) -> Any:
        ago = max(0.0, time.time() - query.since) if query.since else None
        named = {"since": ago, "count": query.most, "caller": query.caller, "request": query.request}
        named["begins"] = 1 if query.begins else None
        given = urlencode({name: value for name, value in named.items() if value is not None})
        return self._get(f"/tandem/past/{question}?{given}")

    def _get(self, path: str, body: bytes | None = None) -> Any:
        try:
            return ask_object(self.place, path, body, within_seconds=_ASK_SECONDS, key=self._key)
        except (Refused, Unreachable) as error:
            raise explain_refusal(self.place, error) from error


def no_turn(place: str, request_id: str | None, undecided: str | None, *, begins: bool) -> Ended:
    """Why there is no turn to explain or mark."""
    if request_id is None:
        return Ended(1, f"no turn in {place} yet")
    if undecided is not None:
        return Ended(1, f"no tier was chosen for {request_id}: {undecided}")
    if begins:
        return Ended(1, f"{request_id} does not belong to a turn that a person typed: nothing was marked")
    return Ended(1, f"no request {request_id} in {place}")


def _rows(kind: type[_Row], told: Sequence[JsonObject]) -> list[_Row]:
    """Build tuples from named fields, ignoring those of other versions."""
    return [msgspec.convert([row[name] for name in kind._fields], kind) for row in told]
