"""The ledger as JSON for `tandem log`, `stats` and `why` on another machine."""

import asyncio
import time
from functools import partial

from router.contract.errors import BadRequest
from router.contract.request import JsonObject
from router.contract.stores import EntryStore
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.page.queries import ask_ledger, read_number, whose
from router.past.answers import QUESTIONS, Query, Question
from router.stores.sqlite.past import SqliteEntryReader

_MAX_COUNT = 10_000


class Past:
    """Answers a caller from its own rows, an admin from all; one at a time, since each may read a whole ledger."""

    def __init__(self, ledger: SqliteEntryReader | None, entries: EntryStore) -> None:
        self._ledger, self._entries = ledger, entries
        self._one_at_a_time = asyncio.Lock()
        self.pages = tuple(Page(f"/tandem/past/{name}", partial(self._answer, ask)) for name, ask in QUESTIONS.items())

    async def _answer(self, ask: Question, asked: Asked) -> Answer:
        def read(ledger: SqliteEntryReader) -> JsonObject:
            query = _read_query(asked)
            ledger.wait_for_writer()
            return ask(ledger, query)

        await self._entries.sync()
        return as_json(await ask_ledger(self._ledger, read, self._one_at_a_time))


def _read_query(asked: Asked) -> Query:
    """`since` is in seconds ago; without it, everything."""
    query, count = asked.query, read_number(asked.query, "count", int)
    if count is not None and not 1 <= count <= _MAX_COUNT:
        raise BadRequest(f"count: must be a number from 1 to {_MAX_COUNT}", param="count")
    since = time.time() - ago if (ago := read_number(query, "since", float)) is not None else 0.0
    found = Query(since, caller=whose(asked), request=query.get("request") or None, begins=query.get("begins") == "1")
    return found if count is None else found._replace(most=count)
