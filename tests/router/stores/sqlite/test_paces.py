"""Calls out of the ledger that show a pace."""

import msgspec
import pytest

from router.contract.entry import Attempt, Pace
from router.contract.usage import Usage
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.ledgers import write_ledger

PACED = Attempt("spark", 200, None, 1.0, Usage(100, 50), pace=Pace("m", 0.2, 640.0))
REFUSED = Attempt("owl", 429, "upstream_refused", 0.1)


def row(at: float, *attempts: Attempt) -> dict:
    return {"at": at, "attempts": msgspec.json.encode(attempts).decode()}


@pytest.mark.parametrize("attempts", ["", 'nonsense "pace"', '[{"pace": 5}]', "{}"])
def test_a_row_that_cannot_be_read_is_left_out(tmp_path, attempts):
    path = write_ledger(tmp_path / "test.db", {"attempts": attempts}, row(2.0, PACED))

    assert [call.at for call in SqliteEntryReader(path).read_past_calls()] == [2.0]


def test_only_the_newest_rows_are_looked_at(tmp_path):
    path = write_ledger(tmp_path / "test.db", *(row(float(number), PACED) for number in range(2_010)))

    assert [call.at for call in SqliteEntryReader(path).read_past_calls()][:1] == [10.0]
