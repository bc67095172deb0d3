"""A file that only has to be there."""

from router.connect import flag_file

PIECE = {"content": "yes\n"}
NONE = frozenset()


def test_it_is_made_where_it_is_absent_and_goes_again():
    put = flag_file.put(None, PIECE)

    assert put.text == "yes\n"
    assert flag_file.take(put.text, put.memo, NONE) == (None, ())


def test_one_that_is_there_stays_as_it_is():
    put = flag_file.put("2026-01-01", PIECE)

    assert put.text == "2026-01-01"
    assert flag_file.holds("2026-01-01", PIECE, NONE)
    assert flag_file.take(put.text, put.memo, NONE) == ("2026-01-01", ())


def test_one_that_somebody_wrote_since_is_theirs():
    assert flag_file.take("2026-01-01", flag_file.put(None, PIECE).memo, NONE) == ("2026-01-01", ())
