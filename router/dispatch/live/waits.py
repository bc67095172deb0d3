"""The wait that a refusal asks for, in every notation that hosts use."""

import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_MAX_SECONDS = 86_400
_MAX_BELIEVED_SECONDS = 31 * _MAX_SECONDS
"""Quotas renew monthly. Anything longer is a timestamp or nonsense."""
_EPOCH_SECONDS, _EPOCH_MILLISECONDS, _EPOCH_END = 1e9, 1e12, 1e13
"""Numbers from here on are timestamps since 1970."""
_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_STEP = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[dhms])")
_DURATION = re.compile(rf"(?:{_STEP.pattern})+")
_IN_BODY = (
    re.compile(r'"(?:retryDelay|retry_delay)"\s*:\s*"(\d+(?:\.\d+)?s)"'),
    re.compile(r'"retry_after"\s*:\s*"?(\d+(?:\.\d+)?)\b', re.IGNORECASE),
    re.compile(r'"x-ratelimit-reset"\s*:\s*"?(\d+)\b', re.IGNORECASE),
    re.compile(r"\b[Tt]ry again in ((?:\d+(?:\.\d+)?(?:ms|[dhms])\s?)+)"),
)
"""Google's `RetryInfo`, a field of the error, OpenRouter's copy of the host's headers, and the wording of OpenAI and Groq."""


def read_retry_after(
    headers: Mapping[str, str], reset_headers: Iterable[str] = (), body: bytes = b"", now: float | None = None
) -> float | None:
    """The wait in seconds, a day at most.

    `reset_headers` are this host's own, for a refusal without the usual header; `now` is our time of day, for a host that does
    not send its own.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text and (seconds := read_wait(text, headers, scale, now)) is not None:
            return min(seconds, _MAX_SECONDS)
    told = _read_body(body[-4_096:].decode("utf-8", "replace"), headers, now) if body else None
    if told is None:
        waits = (read_wait(headers.get(name, ""), headers, now=now) for name in reset_headers)
        told = next((seconds for seconds in waits if seconds is not None), None)
    return None if told is None else min(told, _MAX_SECONDS)


def _read_body(text: str, headers: Mapping[str, str], now: float | None) -> float | None:
    told = (found[1].replace(" ", "") for pattern in _IN_BODY if (found := pattern.search(text)))
    return next((seconds for each in told if (seconds := read_wait(each, headers, now=now)) is not None), None)


def read_wait(text: str, headers: Mapping[str, str], scale: float = 1.0, now: float | None = None) -> float | None:
    """A number of seconds, a duration such as `6m0s` or `250ms`, or a moment. None if invalid, past or absurdly long."""
    text = text.strip()
    seconds = _read_seconds(text)
    if seconds is None:
        moment = _read_date(text)
    elif _EPOCH_SECONDS <= seconds < _EPOCH_END:
        moment = seconds / 1000 if seconds >= _EPOCH_MILLISECONDS else seconds
    else:
        moment, seconds = None, seconds * scale
    if moment is not None:
        seconds = moment - _clock_of(headers, now)
    return seconds if seconds is not None and 0 <= seconds < _MAX_BELIEVED_SECONDS else None


def _clock_of(headers: Mapping[str, str], now: float | None) -> float:
    """The target's clock, which may differ from ours; else ours."""
    told = _read_date(headers.get("date", ""))
    return told if told is not None else time.time() if now is None else now


def _read_date(text: str) -> float | None:
    """An HTTP date (`Wed, 21 Oct 2026 07:28:00 GMT`) or an ISO one."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (TypeError, ValueError, OverflowError):
            continue
    return None


def _read_seconds(text: str) -> float | None:
    if _DURATION.fullmatch(text):
        return sum(float(count) * _UNITS[unit] for count, unit in _STEP.findall(text))
    try:
        return float(text)
    except ValueError:
        return None
