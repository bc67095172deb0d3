"""Rights, spans of time and moments in words."""

import argparse
from datetime import UTC, datetime, timedelta

import pytest

from router.cli.key_rights import describe_expiry, describe_rights, read_lifetime, read_span, read_tiers
from router.config.key_file import CallerSettings
from router.contract.words import Tier

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90d", timedelta(days=90)),
        ("24H", timedelta(hours=24)),
        (" 30 m ", timedelta(minutes=30)),
        ("8w", timedelta(weeks=8)),
        ("0", timedelta()),
    ],
)
def test_a_span_of_time_is_a_number_with_its_unit(text, span):
    assert read_span(text) == span


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "1.5d", "99999d", "1y", "٣d "])
def test_anything_else_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        read_lifetime(text)


def test_a_lifetime_is_not_nothing():
    with pytest.raises(argparse.ArgumentTypeError, match="at once"):
        read_lifetime("0")


@pytest.mark.parametrize(
    ("text", "tiers"),
    [("fast", (Tier.FAST,)), ("deep, fast", (Tier.FAST, Tier.DEEP)), ("none", ()), ("", ())],
)
def test_tiers_have_commas_between_them(text, tiers):
    assert read_tiers(text) == tiers


@pytest.mark.parametrize("text", ["slow", "fast,none", "fast deep"])
def test_what_is_not_a_tier_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="must be fast"):
        read_tiers(text)


def test_rights_are_told_in_plain_words():
    counts = {"requests_per_minute": 60, "tokens_per_minute": 100_000, "in_flight": 8, "jobs_in_flight": 2}
    limited = CallerSettings(tiers=[Tier.DEEP], may_force=(), may_delegate=False, daily_usd=5, monthly_usd=100, **counts)

    assert describe_rights(CallerSettings()) == [
        "served by fast and deep",
        "may ask for fast by name, not for deep",
        "no limits",
    ]
    assert describe_rights(CallerSettings(may_force=tuple(Tier), admin=True))[1:] == [
        "may ask for fast and deep by name",
        "no limits",
        "admin: may see the figures of all callers, and reload the config",
    ]
    assert describe_rights(limited) == [
        "served by deep only",
        "may not ask for a tier by name: Tandem chooses",
        "may not have requests served in the background",
        "limits: 60 requests a minute, 100,000 tokens a minute, 8 at once, 2 background jobs, $5.00 a day, $100 a month",
    ]


@pytest.mark.parametrize(
    ("expires", "said"),
    [
        (None, "never expires"),
        (NOON, "expired 2026-11-16 12:00 UTC"),
        (NOON + timedelta(minutes=1), "expires 2026-11-16 12:01 UTC"),
    ],
)
def test_an_expiry_is_told_with_its_moment(expires, said):
    assert describe_expiry(expires, NOON) == said
