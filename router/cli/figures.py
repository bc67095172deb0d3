"""Times, money and counts as Tandem prints them: 0.9s, 2m04, $0.004, 84k. One style for screen and tables."""

import math
import time
from datetime import UTC, datetime

UNKNOWN = "-"


def duration(seconds: float | None) -> str:
    """At most five characters: 0.9s, 41s, 2m04, 1h07, 3d02."""
    if seconds is None:
        return UNKNOWN
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f}s"
    if seconds < 59.5:
        return f"{seconds:.0f}s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes}m{round(seconds) % 60:02d}"
    hours = minutes // 60
    return f"{hours}h{minutes % 60:02d}" if hours < 24 else f"{hours // 24}d{hours % 24:02d}"


def money(usd: float | None, *, is_part: bool = False, is_short: bool = False) -> str:
    """More digits for a small amount, since most turns cost less than a cent. A plus marks a partial sum.

    A partial sum of zero is unknown. Short: six characters (up to $9,999), no leading zero below a tenth of a cent.
    """
    if usd is None or (is_part and not usd):
        return UNKNOWN
    more = "+" if is_part else ""
    if 0 < usd < 0.00095:
        if is_short:
            return f"${usd:.4f}{more}".replace("$0", "$") if usd >= 0.00005 else f"<.0001{more}"
        digits = 1 - math.floor(math.log10(usd))
        return f"${usd:.{min(digits, 12)}f}{more}"
    if usd < 0.0995:
        return f"${usd:.3f}{more}"
    return f"${usd:.2f}{more}" if usd < 99.995 else f"${usd:,.0f}{more}"


def count(number: float | None) -> str:
    """At most four characters: 140, 9.9k, 84k, 1.2M."""
    if number is None:
        return UNKNOWN
    if number < 1_000:
        return f"{number:.0f}"
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        scaled = number / size
        if scaled < 9.95:
            return f"{scaled:.1f}{unit}"
        if scaled < 999.5 or unit == "G":
            return f"{scaled:.0f}{unit}"
    raise AssertionError("the last unit takes every number")


def plural(number: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def clock(at: float) -> str:
    """Local time: 11:23."""
    return time.strftime("%H:%M", time.localtime(at))


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def day_and_clock(at: float) -> str:
    """Local time with its day: 11-14 11:23."""
    return time.strftime("%m-%d %H:%M", time.localtime(at))
