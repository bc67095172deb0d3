"""A ledger with rows of a test's own, without a router that writes it."""

import contextlib
from pathlib import Path

from router.contract.entry import COLUMNS, Entry
from router.stores.recent import row_of
from router.stores.sqlite.files import connect, create_private
from router.stores.sqlite.migrate import LEDGER, prepare

_NAMES = (*COLUMNS, "decision", "attempts", "prompt_text", "answer_text")


def write_ledger(path: Path, *entries: Entry, version: int = len(LEDGER)) -> Path:
    """Write these rows, in the schema of some version."""
    create_private(path)
    prepare(path, LEDGER[:version])
    with contextlib.closing(connect(path)) as database:
        there = {name for (name,) in database.execute("SELECT name FROM pragma_table_info('entries')")}
        names = [name for name in _NAMES if name in there]
        rows = [dict(zip(_NAMES, row_of(entry), strict=True)) for entry in entries]
        database.executemany(
            f"INSERT INTO entries ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
            [[row[name] for name in names] for row in rows],
        )
    return path
