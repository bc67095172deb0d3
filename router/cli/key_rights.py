"""A caller's rights for `tandem keys`: one table for options, sentences and columns."""

import argparse
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from router.cli.common import number_between, whole_number_between
from router.cli.figures import money
from router.config.key_file import CallerSettings
from router.contract.spending import read_ago
from router.contract.words import Tier

_MAX_SPAN = timedelta(days=3_660)
_MOST = 10**9
NONE = "none"


class Right(NamedTuple):
    setting: str
    option: str
    help: str
    read: Callable[[str], object] | None = None
    """None for a switch."""
    metavar: str = ""
    words: str = ""
    """A limit in a sentence."""


def read_tiers(text: str) -> tuple[Tier, ...]:
    """An `argparse` type: tiers with commas, or `none`."""
    names = [name.strip() for name in text.split(",")]
    if names in ([NONE], [""]):
        return ()
    if not set(names) <= set(map(str, Tier)):
        raise argparse.ArgumentTypeError(f'"{text}" must be fast, deep, "fast,deep" or none')
    return tuple(tier for tier in Tier if tier in names)


def _or_none(read: Callable[[str], object]) -> Callable[[str], object]:
    return lambda text: None if text == NONE else read(text)


def _limit(setting: str, option: str, help: str, words: str) -> Right:  # noqa: A002  argparse's name
    return Right(setting, option, help, _or_none(whole_number_between(1, _MOST)), "N", words)


def _budget(setting: str, option: str, help: str, words: str) -> Right:  # noqa: A002
    return Right(setting, option, help, _or_none(number_between(0.0001, _MOST)), "USD", words)


RIGHTS = (
    Right("tiers", "--tiers", "tiers that may serve it (default: fast,deep)", read_tiers, "TIERS"),
    Right(
        "may_force",
        "--may-force",
        "tiers it may ask for by name, or none (default: fast)",
        read_tiers,
        "TIERS",
    ),
    Right("admin", "--admin", "all that needs an admin"),
    _limit("requests_per_minute", "--rpm", "requests a minute", "{:,} requests a minute"),
    _limit("tokens_per_minute", "--tpm", "tokens a minute", "{:,} tokens a minute"),
    _limit("in_flight", "--in-flight", "requests at once", "{:,} at once"),
    Right("may_delegate", "--delegate", "may have background jobs (default: yes)"),
    Right("may_combine", "--both-tiers", "may have both tiers work on one task (default: yes)"),
    _limit("jobs_in_flight", "--jobs-in-flight", "background jobs at once", "{:,} background jobs"),
    _budget("daily_usd", "--daily-usd", "spending a day", "{} a day"),
    _budget("monthly_usd", "--monthly-usd", "spending a month", "{} a month"),
)


def add_right_arguments(parser: argparse.ArgumentParser) -> None:
    """An option per right. Options not given are absent from the namespace, so that `set` keeps them."""
    rights = parser.add_argument_group("add and set: what the caller may do")
    limits = parser.add_argument_group("add and set: limits (none removes one)")
    for right in RIGHTS:
        group = limits if right.words else rights
        given: dict[str, Any] = {"dest": right.setting, "default": argparse.SUPPRESS, "help": right.help}
        if right.read is None:
            group.add_argument(right.option, action=argparse.BooleanOptionalAction, **given)
        else:
            group.add_argument(right.option, type=right.read, metavar=right.metavar, **given)


def describe_rights(caller: CallerSettings) -> list[str]:
    lines = [f"served by {_name_tiers(caller.tiers)}{'' if len(caller.tiers) > 1 else ' only'}"]
    asked = _name_tiers(caller.may_force)
    lines.append(f"may ask for {asked} by name" if asked else "may not ask for a tier by name: Tandem chooses")
    if asked and len(caller.may_force) < len(Tier):
        lines[-1] += f", not for {_name_tiers(set(Tier) - set(caller.may_force))}"
    if not caller.may_delegate:
        lines.append("may not have requests served in the background")
    if not caller.may_combine:
        lines.append("may not have both tiers work on one task")
    limits = describe_limits(caller)
    lines.append(f"limits: {limits}" if limits else "no limits")
    if caller.admin:
        lines.append("admin: may see the figures of all callers, and reload the config")
    return lines


def describe_limits(caller: CallerSettings) -> str:
    limits = [(right, getattr(caller, right.setting)) for right in RIGHTS if right.words]
    known = ((right, money(number) if right.metavar == "USD" else number) for right, number in limits if number is not None)
    return ", ".join(right.words.format(number) for right, number in known)


def _name_tiers(tiers: Iterable[Tier]) -> str:
    return " and ".join(tier for tier in Tier if tier in set(tiers))


def read_span(text: str) -> timedelta:
    """An `argparse` type: a span such as 90d."""
    seconds = 0 if text.strip() == "0" else read_ago(text)
    if seconds is None or seconds > _MAX_SPAN.total_seconds():
        raise argparse.ArgumentTypeError(f'"{text}" is not a time such as 30m, 24h, 90d or 8w (at most ten years)')
    return timedelta(seconds=seconds)


def read_lifetime(text: str) -> timedelta:
    """An `argparse` type: a span above zero."""
    if not (span := read_span(text)):
        raise argparse.ArgumentTypeError("a key that expires at once is of no use: give it a time such as 90d")
    return span


def describe_expiry(expires: datetime | None, now: datetime) -> str:
    if expires is None:
        return "never expires"
    return f"{'expired' if expires <= now else 'expires'} {write_moment(expires)}"


def write_moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
