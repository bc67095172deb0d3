"""A block at the end of a shell's start-up file."""

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
