"""The generated ledger has rows that every reader takes for a router's own."""

from router.past.cases import LedgerTally, read_ledger
from router.stores.sqlite.past import SqliteEntryReader
from tests.bench.large_ledger import WEIGHTS, write_large


def test_every_turn_of_the_generated_ledger_is_readable_and_was_scored_with_the_shipped_weights(tmp_path):
    path, tally = write_large(tmp_path / "l.db", 300), LedgerTally()

    cases = read_ledger(SqliteEntryReader(path), tally)

    assert len(cases) > 20
    assert tally.unreadable == 0
    assert {case.kept.weights for case in cases} == {WEIGHTS} != {""}
