"""Questions of `tandem log`, `stats`, `why` and `wrong` to a ledger, also over `/tandem/past`, as JSON."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import asdict

from router.contract.request import Json, JsonObject
from router.past.rows import read_call
from router.past.savings import add_up
from router.settle.kept import explain_row
from router.stores.sqlite.past import SqliteEntryReader


class Query(NamedTuple):
    """The part of a ledger to read. A caller's name excludes all others."""

    since: float = 0.0
    """Seconds since 1970."""
    most: int = 20
    """Turns or sessions."""
    caller: str | None = None
    request: str | None = None
    """A request's id; None for the last turn."""
    begins: bool = False
    """Whether to find the turn of that request."""


Question = Callable[[SqliteEntryReader, Query], JsonObject]


def _read_turns(ledger: SqliteEntryReader, asked: Query) -> JsonObject:
    calls, earlier = ledger.read_newest(asked.since, asked.most, asked.caller)
    return {
        "calls": [
            {**asdict(call.line), "decided": call.decided, "should_be": call.should_be} for call in map(read_call, calls)
        ],
        "earlier": [{"caller": of, "session": session, "turns": turns} for (of, session), turns in earlier.items()],
    }


def _read_sessions(ledger: SqliteEntryReader, asked: Query) -> JsonObject:
    return {"sessions": [sums._asdict() for sums in ledger.read_sessions(asked.since, asked.most, asked.caller)]}


def _read_sums(ledger: SqliteEntryReader, asked: Query) -> JsonObject:
    calls: list[Json] = [{**row._asdict()} for row in ledger.read_sums(asked.since, asked.caller)]
    savings = add_up(ledger, asked.since, asked.caller)
    return {"calls": calls, "savings": savings.as_json(), "kinds": savings.kinds_as_json()}


def _read_looks(ledger: SqliteEntryReader, asked: Query) -> JsonObject:
    """Apart from the sums: every decision of the span is searched."""
    return {"looks": [{**row._asdict()} for row in ledger.read_looks(asked.since, asked.caller)]}


def _find_turn(ledger: SqliteEntryReader, asked: Query) -> JsonObject:
    """One request, its turn, or the last turn. `undecided` says why there is none."""
    name, caller = asked.request, asked.caller
    turn = ledger.find_beginning(name) if name is not None and asked.begins else ledger.find_turn(name, caller)
    if turn is None or caller not in (None, turn.caller):
        return {"turn": None, "undecided": ledger.find_undecided(name, caller) if name is not None else None}
    own = {field: value for field, value in turn._asdict().items() if field != "row"}
    return {"turn": {**own, "decision": explain_row(turn.row)}, "undecided": None}


QUESTIONS: dict[str, Question] = {
    "turns": _read_turns,
    "sessions": _read_sessions,
    "sums": _read_sums,
    "looks": _read_looks,
    "turn": _find_turn,
}
