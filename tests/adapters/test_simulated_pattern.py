"""Texts for regular expressions."""

import re

import pytest

from adapters.simulated_pattern import ANY_TEXT, text_for


@pytest.mark.parametrize(
    "pattern",
    [
        "^[A-Z]{3}$", r"^\d{4}-\d{2}$", "^(red|green)$", r"^[^\s@]+@[^\s@]+\.com$", "^v?[0-9]+$", "^.{5,}$", r"^[\w.-]+$",
        "a{2}b*c+?", "^[^a0A]$", r"^\S\D\W$", "",
    ],
)  # fmt: skip
def test_a_text_matches_its_pattern(pattern):
    assert re.search(pattern, text_for(pattern))


def test_a_text_is_as_long_as_it_must_be():
    assert re.fullmatch("[a-z]{10,}", text_for("^[a-z]+$", 10))


@pytest.mark.parametrize("pattern", ["[", r"\p{L}+", "(?=a)b", "(a{10000}){10000}", "(" * 5_000 + ")" * 5_000, "a{99999999}"])
def test_a_pattern_beyond_us_gets_some_text(pattern):
    assert text_for(pattern) == ANY_TEXT


def test_a_pattern_that_would_take_years_is_not_tried():
    assert text_for("^(a?){40}a{40}$" + "(x+x+)+y" * 5) == "a" * 40 + "xxy" * 5
