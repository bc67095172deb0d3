"""What is said of a file is what is in it and next to it."""

import os

from router.stores.sqlite.files import create_private
from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.schemas import JOBS, LEDGER
from router.stores.sqlite.state import look_at_file
from tests.tools.ledgers import write_ledger


def test_rows_ages_schema_and_copies_of_a_file(tmp_path):
    path = write_ledger(tmp_path / "a.db", {"at": 5.0}, {"at": 7.0})
    (copy := tmp_path / "a.db.before-2").write_bytes(b"12345")
    os.utime(copy, (9.0, 9.0))

    state = look_at_file(path)

    assert dict(state.rows)["entries"] == 2
    assert (state.oldest, state.newest, state.schema, state.problem) == (5.0, 7.0, LEDGER.newest, "")
    assert state.copies == [(copy, 5, 9.0)]
    assert state.pages is not None
    assert state.pages.total_bytes == path.stat().st_size


def test_a_file_without_rows_has_no_ages(tmp_path):
    create_private(path := tmp_path / "jobs.db")
    prepare(path, JOBS)

    state = look_at_file(path)

    assert (state.oldest, state.newest, sum(rows for _, rows in state.rows)) == (None, None, 0)


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    (path := tmp_path / "a.db").write_bytes(b"something else " * 500)

    state = look_at_file(path)

    assert (state.pages, state.problem) == (None, "file is not a database")
