"""Deletes everything the shared database keeps of one caller, while routers run."""

import asyncio
from collections.abc import Mapping

from router.contract.caller import Caller
from router.contract.shared import PostgresTerms
from router.stores.postgres.link import Link

_FORGET_JOBS = """
    WITH gone AS (DELETE FROM tandem.jobs WHERE caller = $1 RETURNING id),
    posted AS (DELETE FROM tandem.outbox USING gone WHERE outbox.job = gone.id) SELECT count(*) FROM gone
"""
_FORGET_ENTRIES = "WITH gone AS (DELETE FROM tandem.entries WHERE caller = $1 RETURNING 1) SELECT count(*) FROM gone"
_FORGET_RESPONSES = "WITH gone AS (DELETE FROM tandem.responses WHERE caller = $1 RETURNING 1) SELECT count(*) FROM gone"
_COUNTS = {
    "requests": "SELECT count(*) FROM tandem.entries WHERE caller = $1",
    "responses": "SELECT count(*) FROM tandem.responses WHERE caller = $1",
    "jobs": "SELECT count(*) FROM tandem.jobs WHERE caller = $1",
}
_FORGETS = {"requests": _FORGET_ENTRIES, "responses": _FORGET_RESPONSES, "jobs": _FORGET_JOBS}
_SECONDS = 60.0
"""The command waits."""


def count_kept(terms: PostgresTerms, caller: Caller) -> Mapping[str, int]:
    """Rows by kind. Raises `StoreUnusable`."""
    return asyncio.run(_ask(terms, _COUNTS, caller))


def forget_caller(terms: PostgresTerms, caller: Caller) -> Mapping[str, int]:
    """Delete all rows of a caller; owners of its jobs stop at their next look. Raises `StoreUnusable`.

    Delete from the ledger's file first. A router copying rows checks that its file still has them before it commits, and the
    lock waits for routers that have checked.
    """
    return asyncio.run(_ask(terms, _FORGETS, caller, locks=True))


async def _ask(terms: PostgresTerms, statements: Mapping[str, str], caller: Caller, *, locks: bool = False) -> dict[str, int]:
    link = Link(terms.waiting(_SECONDS), lambda reason: None)
    try:
        async with link.borrow() as connection, connection.transaction():
            if locks:
                await connection.execute("LOCK TABLE tandem.entries IN SHARE ROW EXCLUSIVE MODE")
            return {kind: int(await connection.fetchval(text, caller.name)) for kind, text in statements.items()}
    finally:
        await link.close()
