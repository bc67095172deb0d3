"""Postgres statements of the shared copy of the ledger, with every router's rows once."""

from collections.abc import Mapping, Sequence
from typing import Any

from router.contract.entry import column_types
from router.stores.sqlite.forwarded import FORWARDED

_OWN = {
    "decision": (str, True),
    "attempts": (str, False),
    "prompt_text": (str, True),
    "answer_text": (str, True),
    "replica": (str, True),
}
_KINDS: Mapping[type, tuple[str, tuple[type, ...]]] = {
    float: ("float8", (float, int)),
    int: ("int8", (int,)),
    bool: ("int8", (int,)),
    str: ("text", (str,)),
}
_TYPES = [(*_KINDS[kind], is_optional) for kind, is_optional in (column_types() | _OWN).values()]
_ALLOWED = [frozenset((*types, type(None)) if is_optional else types) for _, types, is_optional in _TYPES]
_COLUMNS = ", ".join(FORWARDED)
_INCOMING = "tandem_incoming"
_MAKE = f"""
    CREATE TEMPORARY TABLE IF NOT EXISTS {_INCOMING} ON COMMIT DELETE ROWS AS SELECT {_COLUMNS} FROM tandem.entries WITH NO DATA
"""  # noqa: S608  fixed names
_REPLACED = ", ".join(f"{column} = excluded.{column}" for column in FORWARDED if column != "id")
# Two routers have a row of a job's attempt where one took it over from a paused one: exact tokens win over estimates in either
# order.
_INSERT = f"""
    INSERT INTO tandem.entries AS known ({_COLUMNS}) SELECT * FROM {_INCOMING} ON CONFLICT (id) DO UPDATE SET {_REPLACED}
    WHERE known.tokens_estimated IS DISTINCT FROM 0 AND excluded.tokens_estimated = 0
"""  # noqa: S608  fixed names
_FORGET_OLD = "DELETE FROM tandem.entries WHERE sequence IN (SELECT sequence FROM tandem.entries WHERE at < $1 LIMIT $2)"
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


def find_unfit(rows: Sequence[Sequence[Any]]) -> set[int]:
    """Positions of rows with a value that does not fit its column: SQLite takes any, and people may edit the file."""
    columns = zip(*rows, strict=True)
    if all(set(map(type, column)) <= allowed for column, allowed in zip(columns, _ALLOWED, strict=True)):
        return set()
    return {place for place, row in enumerate(rows) if not all(map(_is_fit, row, _ALLOWED))}


def _is_fit(value: object, allowed: frozenset[type]) -> bool:
    return type(value) in allowed


async def insert(connection: Any, rows: Sequence[Sequence[Any]]) -> None:
    """Add rows that are missing, or present only with estimated tokens. In a transaction.

    Sent by `COPY` to a temporary table, which takes a sixth of the time of array parameters.
    """
    await connection.execute(_MAKE)
    await connection.copy_records_to_table(_INCOMING, records=_clean(rows), columns=FORWARDED)
    await connection.execute(_INSERT)


def _clean(rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """Postgres does not store NUL."""
    texts = (column for column, (kind, *_) in zip(zip(*rows, strict=True), _TYPES, strict=True) if kind == "text")
    if not any("\0" in "".join(filter(None, column)) for column in texts):
        return rows
    return [[_replace(value) if isinstance(value, str) else value for value in row] for row in rows]


def _replace(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


async def read_home(connection: Any) -> tuple[str, float]:
    """The database's own name, and its time."""
    return str(await connection.fetchval("SELECT id FROM tandem.home")), float(await connection.fetchval(_NOW))


async def forget_old(connection: Any, before: float, limit: int) -> bool:
    """Returns whether there may be more."""
    done = await connection.execute(_FORGET_OLD, before, limit)
    return int(done.rpartition(" ")[2]) == limit
