"""The calls of one session."""

from router.stores.sqlite.one_session import read_session
from tests.tools.ledgers import write_ledger


def test_the_calls_of_a_persons_turns_are_read_in_their_order(tmp_path):
    path = write_ledger(
        tmp_path / "t.db",
        {"because": "first"},
        {"turn_kind": "tool_loop", "tier": "deep", "because": "moved"},
        {"turn_kind": "side"},
        {"tier": None},
        {"session": "other"},
    )

    assert read_session(str(path), "s") == [("ask", "fast", "first"), ("tool_loop", "deep", "moved")]


def test_a_ledger_that_cannot_be_read_has_no_calls(tmp_path):
    (tmp_path / "broken.db").write_bytes(b"not a database" * 100)

    assert read_session(str(tmp_path / "none.db"), "s") == read_session(str(tmp_path / "broken.db"), "s") == []
    assert not (tmp_path / "none.db").exists()
