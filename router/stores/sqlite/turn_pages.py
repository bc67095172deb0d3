"""Pages of whole turns from the ledger: a walk along calls that match, and then every call of their turns.

Which calls make a turn is for `past.turns` to say. What is read here begins and ends where a turn does.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from router.contract.entry import COLUMNS, read_line
from router.contract.past import FoundCall, RecordedCall, TurnsAsked, TurnsPage
from router.contract.words import BEGINS, NOBODY_SERVED, PERSONS_KINDS, Tier, TurnKind
from router.stores.sqlite.hours import BEGIN
from router.stores.sqlite.marks import read_misjudged
from router.stores.sqlite.pages import LINE, PERSONS, Walk, find_filters

_MAX_CALLS = 1_000
"""Calls read of one session."""
_MAX_TRIES = 20
"""How often an ask that nobody served is sent again, at most."""
_KIND, _OUTCOME = COLUMNS.index("turn_kind"), COLUMNS.index("outcome")
_COLUMNS = ("caller", "session", "turn_kind")
_FULL = f"SELECT {LINE}, decision, sequence FROM entries"  # noqa: S608  fixed names
_ONE = f"{_FULL} WHERE sequence = ?"
_RUN = f"{_FULL} WHERE session = ? AND +caller = ? AND sequence >= ? AND turn_kind IN {{}} ORDER BY sequence LIMIT {_MAX_CALLS}"
_OF_PERSON, _OF_SUBAGENT = _RUN.format(PERSONS), _RUN.format(f"('{TurnKind.SUBAGENT}')")
_PLACES = f"SELECT sequence, outcome FROM entries WHERE session = ? AND +caller = ? AND turn_kind IN {PERSONS}"  # noqa: S608  ours
_BEGINNING = f"{_PLACES} AND turn_kind IN {BEGIN} AND sequence <= ? ORDER BY sequence DESC LIMIT 1"
_BEFORE = f"{_PLACES} AND sequence < ? ORDER BY sequence DESC LIMIT 1"
_PLACE = "SELECT sequence, caller, session, turn_kind FROM entries WHERE id = ? AND (? IS NULL OR caller = ?)"
_Key = tuple[str, str | None, str | None]


def read_turns(database: sqlite3.Connection, asked: TurnsAsked) -> TurnsPage:
    """The turns of matching calls, newest first by those. `limit` counts turns."""
    walk = Walk(database, asked, _COLUMNS)
    found: dict[_Key, list[int]] = {}
    """By session, what was met of it; calls without a turn of their session have a key of their own."""
    open_turns, turns = set[_Key](), 0
    for number in walk:
        key, goes_on = _key_of(number, *walk.values)
        turns += key not in open_turns
        (open_turns.add if goes_on else open_turns.discard)(key)
        found.setdefault(key, []).append(number)
        if turns >= asked.limit:
            break
    should_be = read_misjudged(database)
    calls = [
        call
        for key, numbers in found.items()
        for call in _read_run(database, key, min(numbers), max(numbers), should_be, asked)
    ]
    return TurnsPage(calls, frozenset(number for numbers in found.values() for number in numbers), walk.next)


def read_turn(database: sqlite3.Connection, request_id: str, caller: str | None) -> list[FoundCall]:
    """The calls around one request, with all of its turn; empty if it is not known."""
    place = database.execute(_PLACE, (request_id, caller, caller)).fetchone()
    if place is None:
        return []
    number, *values = place
    key, _ = _key_of(number, *values)
    return [*_read_run(database, key, number, number, read_misjudged(database), TurnsAsked())]


def _key_of(number: int, caller: str, session: str | None, kind: str | None) -> tuple[_Key, bool]:
    """What a call's turn is found by, and whether older calls may belong to that turn."""
    if session is None or kind not in (*PERSONS_KINDS, TurnKind.SUBAGENT):
        return (str(number), None, None), False
    return (caller, session, TurnKind.SUBAGENT if kind == TurnKind.SUBAGENT else ""), kind not in BEGINS


def _read_run(
    database: sqlite3.Connection, key: _Key, first: int, last: int, should_be: Mapping[str, Tier], asked: TurnsAsked
) -> Iterator[FoundCall]:
    """The calls of a session from the beginning of one turn to the end of another, oldest first."""
    caller, session, kind = key
    if session is None:
        rows: Iterable[tuple[Any, ...]] = database.execute(_ONE, (first,))
    elif kind == TurnKind.SUBAGENT:
        rows = database.execute(_OF_SUBAGENT, (session, caller, 0))
    else:
        rows = _until(last, database.execute(_OF_PERSON, (session, caller, _find_beginning(database, session, caller, first))))
    filters = find_filters(asked)
    for *values, decision, number in rows:
        if (line := read_line(values)) is not None:
            is_match = line.at >= asked.since and all(getattr(line, name) == value for name, value in filters.items())
            yield FoundCall(number, RecordedCall(line, decision, should_be.get(line.id)), is_match)


def _find_beginning(database: sqlite3.Connection, session: str, caller: str, number: int) -> int:
    """The ask of a call's turn. One that nobody served before it is its first try."""
    for _ in range(_MAX_TRIES):
        begun = database.execute(_BEGINNING, (session, caller, number)).fetchone()
        if begun is None:
            break
        number = begun[0]
        before = database.execute(_BEFORE, (session, caller, number)).fetchone()
        if before is None or before[1] not in NOBODY_SERVED:
            break
        number = before[0]
    return number


def _until(last: int, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows to the end of a call's turn."""
    was_served = True
    for row in rows:
        if row[-1] > last and row[_KIND] in BEGINS and was_served:
            return
        was_served = row[_OUTCOME] not in NOBODY_SERVED
        yield row
