"""Values that need more than a type."""

from datetime import date

import pytest
from pydantic import TypeAdapter, ValidationError

from router.config.values import ExtraValue, find_address_fault, fits_header

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


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://api.example.com/v1", ""),
        ("http://[::1]:8000/v1", ""),
        ("http://[::1/v1", "is not a valid address"),
        ("https:///v1", "must name a host"),
        ("http://host:99999", "port between"),
        ("http://a b", "spaces"),
    ],
)
def test_an_address_has_a_host_and_a_port_that_can_be(url, problem):
    assert find_address_fault(url).find(problem) >= 0
    assert bool(find_address_fault(url)) is bool(problem)
