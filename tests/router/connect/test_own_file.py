"""A file that is ours alone."""

import pytest

from router.connect import own_file

PIECE = {"content": "ours\n"}


@pytest.mark.parametrize("before", [None, "", "theirs"])
def test_what_was_there_comes_back(before):
    put = own_file.put(before, PIECE)

    assert put.text == "ours\n"
    assert own_file.holds(put.text, PIECE, frozenset())
    assert own_file.take(put.text, put.memo, frozenset()) == (before, ())


def test_a_file_that_somebody_changed_is_theirs():
    assert own_file.take("mine now", own_file.put(None, PIECE).memo, frozenset()) == (
        "mine now",
        ("was changed since, and stays",),
    )
    assert own_file.take("theirs", [], frozenset()) == ("theirs", ())
