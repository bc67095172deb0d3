"""The ledger for `tandem log`, `stats` and `why` on another machine: what those commands read of a local file, as JSON."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import asdict

from router.contract.errors import BadRequest
from router.contract.request import JsonObject
from router.contract.stores import EntryReader
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.page.queries import ask_ledger, read_number, whose
from router.past.lookback import look_back
from router.past.regret import PriceOf
from router.settle.kept import explain_row

_USUAL, _MAX_COUNT = 20, 10_000
_Question = Callable[[EntryReader, Asked, str | None], JsonObject]


class Past:
    """Answers a caller from its own rows, and an admin from all. One question at a time: each may read a whole ledger."""

    def __init__(self, ledger: EntryReader | None, price_of: PriceOf) -> None:
        self._ledger = ledger
        self._one_at_a_time = asyncio.Lock()
        questions: dict[str, _Question] = {
            "turns": _read_turns,
            "sessions": _read_sessions,
            "sums": partial(_read_sums, price_of),
            "turn": _find_turn,
        }
        self.pages = tuple(Page(f"/tandem/past/{name}", partial(self._answer, ask)) for name, ask in questions.items())

    async def _answer(self, ask: _Question, asked: Asked) -> Answer:
        def read(ledger: EntryReader) -> JsonObject:
            ledger.wait_for_writer()
            return ask(ledger, asked, whose(asked))

        return as_json(await ask_ledger(self._ledger, read, self._one_at_a_time))


def _read_turns(ledger: EntryReader, asked: Asked, caller: str | None) -> JsonObject:
    calls, earlier = ledger.read_newest(_read_since(asked), _read_count(asked), caller)
    return {
        "calls": [{**asdict(call.line), "decided": call.decided} for call in calls],
        "earlier": [{"caller": of, "session": session, "turns": turns} for (of, session), turns in earlier.items()],
    }


def _read_sessions(ledger: EntryReader, asked: Asked, caller: str | None) -> JsonObject:
    return {"sessions": [sums._asdict() for sums in ledger.read_sessions(_read_since(asked), _read_count(asked), caller)]}


def _read_sums(price_of: PriceOf, ledger: EntryReader, asked: Asked, caller: str | None) -> JsonObject:
    since = _read_since(asked)
    sums = ledger.read_sums(since, caller)
    return {
        **sums._asdict(),
        "calls": [row._asdict() for row in sums.calls],
        "expected": [row._asdict() for row in sums.expected],
        "regret": look_back(ledger, price_of, since, caller).as_json(),
    }


def _find_turn(ledger: EntryReader, asked: Asked, caller: str | None) -> JsonObject:
    """One request by its id, the turn that it belongs to (`begins=1`), or the last turn. `undecided` says why it has none."""
    name = asked.query.get("request") or None
    if name is not None and asked.query.get("begins") == "1":
        turn = ledger.find_beginning(name)
        turn = turn if turn is not None and caller in (None, turn.caller) else None
    else:
        turn = ledger.find_turn(name, caller)
    if turn is None:
        return {"turn": None, "undecided": ledger.find_undecided(name, caller) if name is not None else None}
    own = {field: value for field, value in turn._asdict().items() if field != "row"}
    return {"turn": {**own, "decision": explain_row(turn.row)}, "undecided": None}


def _read_since(asked: Asked) -> float:
    """The moment that is `since` seconds ago; without it, the beginning."""
    ago = read_number(asked.query, "since", float)
    return time.time() - ago if ago is not None else 0.0


def _read_count(asked: Asked) -> int:
    count = read_number(asked.query, "count", int)
    if count is not None and not 1 <= count <= _MAX_COUNT:
        raise BadRequest(f"count: must be a number from 1 to {_MAX_COUNT}", param="count")
    return _USUAL if count is None else count
