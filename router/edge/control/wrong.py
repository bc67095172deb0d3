"""Marking a turn as sent to the wrong tier, as `tandem wrong` does."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from router.contract.errors import BadRequest, NotFound, Unavailable
from router.contract.limits import Limits
from router.contract.request import JsonObject
from router.contract.stores import EntryStore, StoreUnusable
from router.contract.words import Tier
from router.edge.control.bodies import read_small_body
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.stores.sqlite.marks import judge_turn
from router.stores.sqlite.past import SqliteEntryReader, wait_for_writer

_RETRY_SECONDS = 5


class Wrong:
    """Takes a caller's word about its own turns, and an admin's about all."""

    def __init__(self, ledger: Path | None, entries: EntryStore, limits: Callable[[], Limits]) -> None:
        self._ledger, self._entries, self._limits = ledger, entries, limits
        self.pages = (Page("/tandem/wrong/{request_id}", self._mark, ("POST",)),)

    async def _mark(self, asked: Asked) -> Answer:
        given = (await read_small_body(asked, self._limits())).get("tier")
        if given not in tuple(Tier):
            raise BadRequest('tier: must be "fast" or "deep", the tier that would have been right', param="tier")
        if self._ledger is None:
            raise NotFound("this router keeps no ledger, so there is nothing to mark")
        caller = None if asked.rights.is_admin else asked.caller.name
        await self._entries.sync()  # the turn may have just ended
        try:
            marked = await asyncio.to_thread(_mark, self._ledger, asked.path["request_id"], Tier(given), caller)
        except StoreUnusable as error:
            problem = "the ledger cannot be read or written now. Try again later"
            raise Unavailable(problem, retry_after_seconds=_RETRY_SECONDS) from error
        return as_json({**marked, "tier": given})


def _mark(path: Path, request_id: str, should_be: Tier, caller: str | None) -> JsonObject:
    """Mark a turn, or take its mark back where it went to that tier. Blocks: for a thread."""
    wait_for_writer(path)
    turn = SqliteEntryReader(path).find_beginning(request_id)
    if turn is None or caller not in (None, turn.caller):
        raise NotFound("no turn of a person with this id for this caller")
    judged = judge_turn(path, turn, should_be)
    return {"marked": turn.id if judged.is_marked else None, "unmarked": judged.was_unmarked}
