"""Days and months of a time zone, and money in whole units of 1e-8 USD: floats would not add up to the ledger's sum."""

import math
import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import NamedTuple

from router.contract.words import Word

_AGO = re.compile(r"([0-9]{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Period(Word):
    DAY = "day"
    MONTH = "month"

    @property
    def adjective(self) -> str:
        return "daily" if self is Period.DAY else "monthly"

    @property
    def possessive(self) -> str:
        return "today's" if self is Period.DAY else "this month's"


class Span(NamedTuple):
    begins: float
    ends: float


class Standing(NamedTuple):
    """How near a caller is to the end of its budgets."""

    share: float
    """How much is spent of the budget of which most is: 1 is all."""
    period: Period
    uncovered: frozenset[str]
    """Targets whose usual answer costs more than is left."""


def read_ago(text: str) -> float | None:
    """Seconds in 30m, 2h or 7d; None for any other text."""
    ago = _AGO.fullmatch(text.strip().lower())
    return int(ago[1]) * _SECONDS[ago[2]] if ago is not None else None


def find_zone(name: str) -> tzinfo:
    """Raises `ValueError` for an unknown name."""
    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # on demand: it looks for files

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # not found, not a name, the name of a folder
        raise ValueError(f'unknown time zone "{name[:60]}"; names are like UTC or Europe/Berlin') from error


def span_of(period: Period, at: float, zone: tzinfo) -> Span:
    day = datetime.fromtimestamp(at, zone).date()
    first = day if period is Period.DAY else day.replace(day=1)
    following = _next(period, first)
    while _midnight(following, zone) <= at:  # a zone may leave a day out
        following = _next(period, following)
    return Span(_midnight(first, zone), _midnight(following, zone))


def _next(period: Period, first: date) -> date:
    if period is Period.DAY:
        return first + timedelta(days=1)
    return (first + timedelta(days=31)).replace(day=1)


def _midnight(day: date, zone: tzinfo) -> float:
    """The start of a day: where clocks skip midnight, the moment at which they do."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()


UNITS_PER_USD = 100_000_000
"""At 0.10 USD per million tokens, a token costs ten units."""


def as_units(usd: float) -> int:
    return round(usd * UNITS_PER_USD)


def as_units_above(usd: float) -> int:
    """Units rounded up, to be enough for an estimate."""
    return math.ceil(usd * UNITS_PER_USD)


def as_usd(units: int) -> float:
    return units / UNITS_PER_USD


def show_usd(units: int) -> str:
    """An amount for people: in cents, or two significant digits below ten of them."""
    usd = abs(units) / UNITS_PER_USD
    is_cents = usd >= 0.1 or units % (UNITS_PER_USD // 100) == 0
    digits = 2 if is_cents else min(8, 1 - math.floor(math.log10(usd)))
    return f"{units / UNITS_PER_USD:.{digits}f} USD"
