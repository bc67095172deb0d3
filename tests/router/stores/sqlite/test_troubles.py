"""Whether the ledger loses rows."""

import contextlib
import sqlite3

import pytest

from router.stores.sqlite.alarm import Failing
from router.stores.sqlite.troubles import find_troubles
from tests.router.stores.sqlite.test_writer import Opened
from tests.tools.waiting import until


class Writer:
    """A writer in this state."""

    def __init__(self, failing: Failing | None, lost: int = 0, damaged_since: float | None = None) -> None:
        self.failing, self.lost, self.damaged_since = failing, lost, damaged_since


@pytest.mark.parametrize(
    ("writer", "since", "text"),
    [
        (Writer(Failing("DiskFull", 30.0, True)), 970.0, "the ledger cannot be written (DiskFull): its rows wait in memory"),
        (Writer(Failing("DiskFull", 30.0, True), 7), 970.0, "the ledger cannot be written (DiskFull): lost rows: 7"),
        (Writer(Failing("QueueFull", 5.0, False), 7), 995.0, "the ledger loses rows (QueueFull): 7 so far"),
        (
            Writer(Failing("FileNotFoundError", 5.0, False)),
            995.0,
            "the ledger's file was moved or deleted while it was in use (FileNotFoundError)",
        ),
        (Writer(Failing("Damaged", 5.0, False), damaged_since=900.0), 900.0, "the ledger's file is damaged"),
        (Writer(None, damaged_since=900.0), 900.0, "the ledger's file is damaged"),
    ],
)
def test_each_failure_has_its_sentence(writer, since, text):
    (notice,) = find_troubles(writer, 1_000.0)

    assert (notice.kind, notice.subject, notice.since, notice.text) == ("ledger_losing", "", since, text)


def test_a_ledger_that_lost_rows_long_ago_and_works_is_no_trouble():
    assert find_troubles(Writer(None, lost=9), 1_000.0) == []


async def test_a_file_that_cannot_be_written_is_a_trouble_until_it_can(tmp_path):
    opened = Opened(tmp_path / "ledger.db", lock_seconds=0.0, batch_seconds=0.01)
    with contextlib.closing(sqlite3.connect(opened.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        opened.add("one")
        await until(lambda: find_troubles(opened.writer, 1_000.0))

    await until(lambda: not find_troubles(opened.writer, 1_000.0))

    assert await opened.read() == {"one": 1}
    await opened.writer.detach(opened)
