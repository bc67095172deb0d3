"""Times, money and counts in one style."""

import pytest

from router.cli.figures import count, day_and_clock, duration, money, plural


def test_a_time_has_at_most_five_characters(subtests):
    for seconds, text in [
        (None, "-"),
        (0.0, "0.0s"),
        (-0.2, "0.0s"),
        (0.94, "0.9s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (41.2, "41s"),
        (59.6, "1m00"),
        (124.0, "2m04"),
        (3_599.7, "1h00"),
        (4_020.0, "1h07"),
        (86_400.0, "1d00"),
        (266_400.0, "3d02"),
    ]:
        with subtests.test(seconds=seconds, text=text):
            assert duration(seconds) == text
            assert len(text) <= 5


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (None, "-"),
        (0.0, "$0.000"),
        (0.00000031, "$0.00000031"),
        (0.00018, "$0.00018"),
        (0.00094, "$0.00094"),
        (0.00096, "$0.001"),
        (0.0042, "$0.004"),
        (0.0994, "$0.099"),
        (0.61, "$0.61"),
        (1.424, "$1.42"),
        (1234.5, "$1,234"),
    ],
)
def test_a_small_amount_has_more_digits(usd, text):
    assert money(usd) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [(0.0, "$0.000"), (0.00004, "<.0001"), (0.00018, "$.0002"), (0.00094, "$.0009"), (0.0042, "$0.004"), (1234.5, "$1,234")],
)
def test_a_short_amount_fits_a_column_and_is_never_nothing(usd, text):
    assert money(usd, is_short=True) == text
    assert len(text) <= 6


@pytest.mark.parametrize(("usd", "text"), [(0.012, "$0.012+"), (2.5, "$2.50+"), (1_234.0, "$1,234+"), (0.0, "-"), (None, "-")])
def test_an_amount_that_is_not_all_of_it_is_marked(usd, text):
    assert money(usd, is_part=True) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (9_940, "9.9k"),
        (9_960, "10k"),
        (84_000, "84k"),
        (999_600, "1.0M"),
        (1_200_000, "1.2M"),
        (3_400_000_000, "3.4G"),
    ],
)
def test_a_number_of_tokens_has_at_most_four_characters(number, text):
    assert count(number) == text
    assert len(text) <= 4


def test_one_turn_and_two_turns():
    assert (plural(1, "turn"), plural(2, "turn"), plural(0, "turn")) == ("1 turn", "2 turns", "0 turns")


def test_a_day_has_its_month_first_so_that_lines_can_be_sorted():
    assert len(day_and_clock(0.0)) == len("01-01 00:00")
