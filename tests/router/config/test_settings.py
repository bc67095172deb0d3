"""Values that need more than a type, and what can be said of any block."""

from datetime import date

import pytest
from pydantic import TypeAdapter, ValidationError

from router.config.settings import ExtraValue, find_address_fault, fits_header

EXTRA = TypeAdapter(ExtraValue)


@pytest.mark.parametrize(("read", "meant"), [(date(2024, 10, 21), "2024-10-21"), (7, "7"), ("x", "x")])
def test_a_date_or_a_number_is_meant_as_it_is_written(read, meant):
    assert EXTRA.validate_python(read) == meant


@pytest.mark.parametrize("read", [True, 1.5, None, ["x"]])
def test_what_has_more_than_one_spelling_must_be_in_quotes(read):
    with pytest.raises(ValidationError):
        EXTRA.validate_python(read)


@pytest.mark.parametrize(("value", "fits"), [("plain text", True), ("two\r\nlines", False), ("é", False), ("", True)])
def test_a_header_takes_printable_ascii(value, fits):
    assert fits_header(value) is fits


WRONG = {
    "must have a port between": [
        *(f"http://127.0.0.1:{port}/v1" for port in ("99999", "65536", "0", "", "80x", "-1")),
        "http://[::1]:99999/v1",
    ],
    "is not a valid address; IPv6 is written": ["http://[::1/v1", "http://::1]/v1", "http://[::g]/v1", "http://[]/v1"],
    "must name a host": ["http:///v1", "https://:443/v1"],
    "must not contain line breaks, spaces": [
        *("http://host\r\nx-evil: 1/v1", "http://host/v1\n", "http://host/v1 ", "http://ho st/v1", "http://host/v1\t"),
        "http://host/\0",
    ],
}


def test_an_address_that_cannot_be_dialled_says_why(subtests):
    for problem, url in ((problem, url) for problem, urls in WRONG.items() for url in urls):
        with subtests.test(url=url):
            assert find_address_fault(url).startswith(problem)


@pytest.mark.parametrize(
    "url",
    ["http://h/v1", "http://h:1/v1", "https://h:65535", "http://[::1]:8000/v1", "http://[::1]/v1", "http://127.0.0.1:0080"],
)
def test_an_address_that_can_be_dialled_has_no_fault(url):
    assert find_address_fault(url) == ""
