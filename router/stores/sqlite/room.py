"""The room on disk that a migration needs, estimated by migrating a sample of the file's rows in memory."""

import contextlib
import sqlite3
from functools import partial
from typing import NamedTuple

from router.stores.sqlite.schemas import Migrations, tables_of

_SPARE_BYTES = 5 << 20
_TIMES = 3
"""A new index is sorted in a temporary file, then in the log, then in the file."""
_SAMPLE_ROWS = 1_000
"""Of a table's oldest rows, and as many of its newest."""
_SAMPLE_BYTES = 8 << 20


class _Sampled(NamedTuple):
    before: int
    """Bytes of the sample, and how much longer the migrations made it."""
    growth: int
    rows: int
    changes: int
    share: float
    """Of the rows of the least sampled table."""


def foresee_room(database: sqlite3.Connection, before: int, migrations: Migrations) -> int:
    """Bytes for a copy of the file, for what migrations add to it, and for the log of both."""
    database.text_factory = partial(str, encoding="utf-8", errors="replace")
    empty, sample = (_migrate_sample(database, before, migrations, rows) for rows in (0, _SAMPLE_ROWS))
    size = page_bytes(database)
    growth = empty.growth + (sample.growth - empty.growth) / sample.share
    row_bytes = sample.before / max(sample.rows, 1)
    changed = (sample.changes - empty.changes) / sample.share * (row_bytes + _page_size(database))
    return size + int(_TIMES * growth + min(changed, size)) + _SPARE_BYTES


def page_bytes(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA page_count").fetchone()[0]) * _page_size(database)


def _page_size(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA page_size").fetchone()[0])


def _migrate_sample(database: sqlite3.Connection, before: int, migrations: Migrations, limit: int) -> _Sampled:
    ours = tables_of(migrations.up_to(before))
    made = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    made = [one for one in made if one[2] in ours]
    rows, share = 0, 1.0
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as sample:
        for kind, name, _, script in made:
            if kind == "table":
                sample.execute(script)
                if taken := _take(database, sample, name, limit):
                    rows += taken
                    share = min(share, taken / int(database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]))  # noqa: S608  ours
        for kind, _, _, script in made:
            if kind != "table":
                sample.execute(script)
        begins, changes = page_bytes(sample), sample.total_changes
        for script in migrations.after(before):
            sample.executescript(script)
        return _Sampled(begins, page_bytes(sample) - begins, rows, sample.total_changes - changes, share)


def _take(database: sqlite3.Connection, sample: sqlite3.Connection, table: str, limit: int) -> int:
    """Copy rows in their order; returns their number."""
    begins = sample.total_changes
    for order in ("", "ORDER BY rowid DESC"):
        rows, size = list[tuple[object, ...]](), 0
        with contextlib.suppress(sqlite3.OperationalError):  # a table without row ids has no newest rows
            for row in database.execute(f'SELECT * FROM "{table}" {order} LIMIT {limit}'):  # noqa: S608  ours
                rows.append(row)
                size += sum(len(value) for value in row if isinstance(value, str | bytes))
                if size > _SAMPLE_BYTES:
                    break
        for row in reversed(rows) if order else rows:
            sample.execute(f'INSERT OR IGNORE INTO "{table}" VALUES ({",".join("?" * len(row))})', row)  # noqa: S608  ours
    return sample.total_changes - begins
