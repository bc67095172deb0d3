"""What is reported of stores that cannot be used."""

import contextlib
import sqlite3

import pytest

from router.stores.sqlite.alarm import Failing
from router.wiring.troubles import find_file_troubles
from tests.router.stores.sqlite.test_writer import Opened
from tests.tools.waiting import until

FULL = Failing("DiskFull", 30.0, True, "the disk is full")


class Writer:
    """A writer in this state."""

    def __init__(self, failing: Failing | None, lost: int = 0, was_open: bool = True) -> None:
        self.failing, self.lost, self.was_open = failing, lost, was_open


@pytest.mark.parametrize(
    ("writer", "since", "text"),
    [
        (Writer(FULL), 970.0, "the ledger cannot be written (the disk is full): its rows wait in memory"),
        (Writer(FULL, 7), 970.0, "the ledger cannot be written (the disk is full): lost rows: 7"),
        (Writer(Failing("QueueFull", 5.0, False, ""), 7), 995.0, "the ledger loses rows (QueueFull): 7 so far"),
        (
            Writer(Failing("FileNotFoundError", 5.0, False, "")),
            995.0,
            "the ledger's file was moved or deleted while it was in use (FileNotFoundError)",
        ),
        (Writer(Failing("Damaged", 5.0, True, "")), 995.0, "the ledger's file is damaged"),
    ],
)
def test_each_failure_has_its_sentence(writer, since, text):
    (notice,) = find_file_troubles({"ledger": writer}, 1_000.0)

    assert (notice.kind, notice.subject, notice.since, notice.text) == ("ledger_losing", "", since, text)


def test_each_store_has_a_notice_of_its_own():
    found = find_file_troubles({"responses": Writer(FULL), "jobs": Writer(FULL), "ledger": Writer(None, lost=9)}, 1_000.0)

    assert [(notice.kind, notice.subject, notice.text) for notice in found] == [
        (
            "store_away",
            "responses",
            "the store of responses cannot be written (the disk is full): new ones wait in memory, and those that cannot be "
            "read are answered with 503",
        ),
        (
            "store_away",
            "jobs",
            "the store of background jobs cannot be written (the disk is full): requests with background: true are answered "
            "with 503",
        ),
    ]


@pytest.mark.parametrize(
    ("was_open", "has_budgets", "end"),
    [(False, True, ", and callers with a budget are answered with 503"), (False, False, ""), (True, True, "")],
)
def test_callers_with_a_budget_are_named_while_nobody_knows_what_they_spent(was_open, has_budgets, end):
    (notice,) = find_file_troubles({"ledger": Writer(FULL, was_open=was_open)}, 1_000.0, has_budgets=has_budgets)

    assert notice.text == f"the ledger cannot be written (the disk is full): its rows wait in memory{end}"


async def test_a_file_that_cannot_be_written_is_a_trouble_until_it_can(tmp_path):
    opened = Opened(tmp_path / "ledger.db", lock_seconds=0.0, batch_seconds=0.01)
    files = {"ledger": opened.writer}
    with contextlib.closing(sqlite3.connect(opened.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        opened.add("one")
        await until(lambda: find_file_troubles(files, 1_000.0))

    await until(lambda: not find_file_troubles(files, 1_000.0))

    assert await opened.read() == {"one": 1}
    await opened.writer.detach(opened)
