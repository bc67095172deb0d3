"""What vendors report of a plan's windows: in the headers of every answer, and in a refusal.

What a socket says in an event instead is a header here (`dialects.transports`).
"""

import math
import time
from collections.abc import Iterable, Mapping

from router.contract.plan_use import FIVE_HOURS, WEEK, PlanWindow, UsedUp
from router.contract.request import Json
from router.dialects.error_bodies import read_error
from router.dialects.transports import OF_A_PLAN
from router.dispatch.live.waits import read_retry_after, read_wait

_UNIFIED = "anthropic-ratelimit-unified-"
_CLAIMS = {"5h": FIVE_HOURS, "7d": WEEK}
"""Anthropic's windows of all models. Others count only where a refusal names them."""
_FIVE_HOUR, _SEVEN_DAY = "five_hour", "seven_day"
"""What a refusal of Anthropic calls them; a model's own is `seven_day_opus`."""
_PARTS = {"primary": FIVE_HOURS, "secondary": WEEK}
"""Codex's windows, and their usual length."""
PLAN_HEADERS = frozenset(
    {
        f"{_UNIFIED}status",
        *(f"{_UNIFIED}{claim}-utilization" for claim in _CLAIMS),
        *(f"{OF_A_PLAN}{part}-used-percent" for part in _PARTS),
    }
)
"""An answer with one of these reports a plan."""
_MINUTE = 60.0
_SAME_SECONDS = 90.0
"""Two times of a vendor that differ by less are the same reset."""


def read_headers(headers: Mapping[str, str], now: float | None = None) -> tuple[PlanWindow, ...]:
    """Windows with a known use and reset. `now` is the time of day."""
    now = time.time() if now is None else now
    found = [
        _window(
            headers.get(f"{_UNIFIED}{claim}-utilization"), 1.0, [headers.get(f"{_UNIFIED}{claim}-reset")], seconds, headers, now
        )
        for claim, seconds in _CLAIMS.items()
    ]
    for part, usual in _PARTS.items():
        given = {name: headers.get(f"{OF_A_PLAN}{part}-{name}") for name in ("used-percent", "window-minutes")}
        resets = [headers.get(f"{OF_A_PLAN}{part}-{name}") for name in ("reset-at", "reset-after-seconds")]
        seconds = _length(given["window-minutes"], usual)
        found.append(_window(given["used-percent"], 100.0, resets, seconds, headers, now))
    return tuple(window for window in found if window is not None)


def read_used_up(
    headers: Mapping[str, str], body: bytes, windows: tuple[PlanWindow, ...], now: float | None = None
) -> UsedUp | None:
    """Until when a plan that answered 429 refuses; None if it names no time."""
    now = time.time() if now is None else now
    if headers.get(f"{_UNIFIED}status") == "rejected":
        wait = read_wait(headers.get(f"{_UNIFIED}reset", ""), headers, now=now)
        claim = headers.get(f"{_UNIFIED}representative-claim", "")
        if wait is not None:
            return UsedUp(now + wait, _name_claim(claim))
    error, _ = read_error(body)
    told = (_text(error.get(name)) for name in ("resets_at", "resets_in_seconds"))
    wait = next((wait for text in told if text and (wait := read_wait(text, headers, now=now)) is not None), None)
    full = [window for window in windows if window.used >= 1]
    if wait is None and full and error.get("type") == "usage_limit_reached":
        wait = max(window.resets_at for window in full) - now
    if wait is not None:
        near = [window for window in (*full, *windows) if abs(window.resets_at - now - wait) <= _SAME_SECONDS]
        return UsedUp(now + wait, near[0].name if near else "")
    wait = read_retry_after(headers, (), body, now)
    return UsedUp(now + wait) if wait else None


def _window(
    used: Json, whole: float, resets: Iterable[Json], seconds: float, headers: Mapping[str, str], now: float
) -> PlanWindow | None:
    share = _number(used)
    waits = (read_wait(text, headers, now=now) for reset in resets if (text := _text(reset)))
    wait = next((wait for wait in waits if wait is not None), None)
    if share is None or wait is None:
        return None
    return PlanWindow(min(max(share / whole, 0.0), 1.0), now + wait, seconds)


def _name_claim(claim: str) -> str:
    if claim == _FIVE_HOUR:
        return PlanWindow(1.0, 0.0, FIVE_HOURS).name
    if claim.startswith(_SEVEN_DAY):
        model = claim.removeprefix(_SEVEN_DAY).strip("_")[:20]
        return PlanWindow(1.0, 0.0, WEEK, model.capitalize() if model.isalpha() else "").name
    return ""


def _length(minutes: Json, usual: float) -> float:
    number = _number(minutes)
    return number * _MINUTE if number is not None and number > 0 else usual


def _number(value: Json) -> float | None:
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text(value: Json) -> str:
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
