"""`--since`."""

import argparse
import time
from datetime import datetime

import pytest

from router.cli.past.since import read_since


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1_800), ("2h", 7_200), ("7d", 604_800), ("2w", 1_209_600), (" 2H ", 7_200)]
)
def test_a_time_ago_is_understood(text, seconds):
    assert read_since(text) == pytest.approx(time.time() - seconds, abs=5)


def test_a_day_begins_at_midnight_here():
    assert read_since("2026-11-01") == datetime(2026, 11, 1).timestamp()
    assert read_since("2026-11-01 13:30") == datetime(2026, 11, 1, 13, 30).timestamp()


@pytest.mark.parametrize("text", ["", "yesterday", "7", "-7d", "2026-13-01", "d", "1.5h", "99999999d"])
def test_anything_else_is_refused_with_examples(text):
    with pytest.raises(argparse.ArgumentTypeError, match="30m, 2h, 7d"):
        read_since(text)
