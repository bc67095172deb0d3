"""Rights, spans of time and moments in words, for `tandem keys`."""

import argparse
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from router.contract.rights import Rights
from router.contract.words import Tier
from router.screen.figures import money

_SPAN = re.compile(r"([0-9]{1,5})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MOST = timedelta(days=3_660)


def read_span(text: str) -> timedelta:
    """A span of time such as 90d. For `argparse`."""
    found = _SPAN.fullmatch(text.strip().lower())
    span = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found is not None else None
    if text.strip() == "0":
        span = timedelta()
    if span is None or span > _MOST:
        raise argparse.ArgumentTypeError(f'"{text}" is not a time such as 30m, 24h, 90d or 8w (at most ten years)')
    return span


def read_lifetime(text: str) -> timedelta:
    """The same, and not nothing."""
    span = read_span(text)
    if not span:
        raise argparse.ArgumentTypeError("a key that expires at once is of no use: give it a time such as 90d")
    return span


def read_tiers(text: str) -> tuple[Tier, ...]:
    """Tiers with commas between them, or `none`. For `argparse`."""
    names = [name.strip() for name in text.split(",")]
    if names in (["none"], [""]):
        return ()
    if not set(names) <= set(map(str, Tier)):
        raise argparse.ArgumentTypeError(f'"{text}" must be fast, deep, "fast,deep" or none')
    return tuple(tier for tier in Tier if tier in names)


def describe_rights(rights: Rights) -> list[str]:
    """What a caller may do, one sentence for each subject."""
    lines = [f"served by {_name_tiers(rights.tiers, 'no tier')}{'' if len(rights.tiers) > 1 else ' only'}"]
    asked = _name_tiers(rights.may_force, "")
    lines.append(f"may ask for {asked} by name" if asked else "may not ask for a tier by name: Tandem chooses")
    if asked and len(rights.may_force) < len(Tier):
        lines[-1] += f", not for {_name_tiers(set(Tier) - rights.may_force, '')}"
    if not rights.may_delegate:
        lines.append("may not have requests served in the background")
    limits = describe_limits(rights)
    lines.append(f"limits: {', '.join(limits)}" if limits else "no limits")
    if rights.is_admin:
        lines.append("admin: may see the figures of all callers, and reload the config")
    return lines


def describe_limits(rights: Rights) -> list[str]:
    """Every limit of a caller."""
    counts = (
        (rights.requests_per_minute, "{:,} requests a minute"),
        (rights.tokens_per_minute, "{:,} tokens a minute"),
        (rights.in_flight, "{:,} at once"),
        (rights.jobs_in_flight, "{:,} background jobs"),
    )
    sums = ((rights.daily_usd, "{} a day"), (rights.monthly_usd, "{} a month"))
    limits = [text.format(number) for number, text in counts if number is not None]
    return limits + [text.format(money(number)) for number, text in sums if number is not None]


def describe_expiry(expires: datetime | None, now: datetime) -> str:
    """When a key stops working, or that it has."""
    if expires is None:
        return "never expires"
    return f"{'expired' if expires <= now else 'expires'} {write_moment(expires)}"


def write_moment(moment: datetime) -> str:
    """A moment in UTC, as people read it."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _name_tiers(tiers: Iterable[Tier], nothing: str) -> str:
    return " and ".join(tier for tier in Tier if tier in set(tiers)) or nothing
