"""A block at the end of a shell's start-up file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.connect import shell_file

PIECE = {"lines": "export A=1\n"}


@given(st.none() | st.text(st.characters(blacklist_categories=["Cs"])))
def test_taking_the_block_leaves_the_very_text(text):
    put = shell_file.put(text, PIECE)

    assert "export A=1" in put.text
    assert shell_file.holds(put.text, PIECE, frozenset())
    assert not shell_file.holds(text or "", PIECE, frozenset())
    assert shell_file.take(put.text, put.memo, frozenset()) == (text or "", ())


@pytest.mark.parametrize("before", ["export A=1", "export A=1\n", ""])
def test_a_line_that_an_installer_appends_counts_and_outlives_the_undo(before):
    put = shell_file.put(before, PIECE)
    appended = f"{put.text}export X=1\n"

    assert "export X=1" in appended.splitlines()
    assert shell_file.holds(appended, PIECE, frozenset())
    kept = f"{before}\nexport X=1\n" if before and not before.endswith("\n") else f"{before}export X=1\n"
    assert shell_file.take(appended, put.memo, frozenset()) == (kept, ())


def test_a_line_that_was_appended_to_an_older_versions_mark_comes_back():
    older = "export A=1\n# >>> tandem connect (x)\nexport B=2\n# <<< tandem connectexport X=1\n"

    assert shell_file.take(older, [], frozenset()) == ("export A=1\nexport X=1\n", ())
    assert shell_file.take(older.replace("export X=1\n", ""), [], frozenset()) == ("export A=1", ())
