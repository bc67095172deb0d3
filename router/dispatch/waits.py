"""How long a target asks to be left alone, from the headers of its refusal."""

import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime

_MAX_SECONDS = 86_400
_MOST_BELIEVED_SECONDS = 31 * _MAX_SECONDS
"""Quotas are renewed with the month. What is more is a point in time, or nonsense."""
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_STEP = re.compile(r"(\d+(?:\.\d+)?)(ms|[hms])")
_DURATION = re.compile(rf"(?:{_STEP.pattern})+")


def read_retry_after(headers: Mapping[str, str], reset_headers: Iterable[str] = ()) -> float | None:
    """The wait in seconds, a day at most.

    `reset_headers` are where this host says when a limit opens again, for a refusal without the usual header.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0), *((name, 1.0) for name in reset_headers)):
        text = headers.get(name, "")
        seconds = _read_seconds(text)
        if seconds is None and name == "retry-after":
            seconds = _read_date(text, headers.get("date", ""))
        if seconds is not None and 0 <= seconds * scale < _MOST_BELIEVED_SECONDS:
            return min(seconds * scale, _MAX_SECONDS)
    return None


def _read_date(until: str, now: str) -> float | None:
    """How far off a date is by the target's own clock, which may differ from ours."""
    try:
        return (parsedate_to_datetime(until) - parsedate_to_datetime(now)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None


def _read_seconds(text: str) -> float | None:
    """A plain number, or a duration such as `6m0s` or `250ms`."""
    text = text.strip()
    if _DURATION.fullmatch(text):
        return sum(float(count) * _UNITS[unit] for count, unit in _STEP.findall(text))
    try:
        return float(text)
    except ValueError:
        return None
