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
        marks = ", ".join("?" * len(_NAMES))
        database.executemany(
            f"INSERT INTO entries ({', '.join(_NAMES)}) VALUES ({marks})",
            [row_of(entry) for entry in entries],
        )
    return path
