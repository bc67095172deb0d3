"""Calls out of the ledger that show how fast their targets were."""

import contextlib
import sqlite3

import msgspec

from router.contract.entry import Attempt, PastCall

_MAX_ENTRIES = 2_000
"""The newest: days of one person's use, and read in some milliseconds."""
_QUERY = f"""
    SELECT at, attempts FROM entries
    WHERE sequence > (SELECT max(sequence) - {_MAX_ENTRIES} FROM entries) AND instr(attempts, '"pace"') ORDER BY sequence
"""  # noqa: S608  fixed names
_decode = msgspec.json.Decoder(list[Attempt]).decode


def read_past_calls(database: sqlite3.Connection) -> list[PastCall]:
    """The newest calls with a pace."""
    found: list[PastCall] = []
    database.execute("PRAGMA cache_size = -256")  # kB: every row is read once
    for at, attempts in database.execute(_QUERY):
        with contextlib.suppress(msgspec.DecodeError):  # of another version, or not written by us
            found += (PastCall(at, attempt, attempt.pace) for attempt in _decode(attempts) if attempt.pace is not None)
    return found
