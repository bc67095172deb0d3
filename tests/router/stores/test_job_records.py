"""What all stores of jobs share."""

import pytest

from router.stores.job_records import is_number, is_writable, writable


@pytest.mark.parametrize(("text", "written"), [("a \ud800", "a ?"), ("a\0b", "a?b"), ("ä", "ä"), (None, None)])
def test_text_is_written_without_what_a_database_does_not_take(text, written):
    assert writable(text) == written


def test_an_id_with_such_text_is_no_jobs():
    assert [is_writable(name) for name in ("resp_1", "resp_\0", "resp_\ud800")] == [True, False, False]


def test_a_page_begins_at_a_number_that_fits_a_row():
    assert [is_number(text) for text in ("12", "", "-1", "٣", "9" * 19)] == [True, False, False, False, False]
