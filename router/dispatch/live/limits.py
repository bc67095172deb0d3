"""Remaining rate limits of targets, read from the headers of every answer and used by the next decision.

A target with too little left is not ruled out: the time until its limit resets is an expected wait like any other.
"""

import math
import re
from collections.abc import Mapping

from msgspec.structs import replace

from router.contract.credential import credential_for
from router.contract.exchange import Exchange
from router.contract.facts import LimitsTold, Read
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.target import LimitWindow, Target, TargetStatus
from router.dispatch.live.plan_windows import PLAN_HEADERS
from router.dispatch.live.plans import Plans
from router.dispatch.live.waits import read_wait

_ENDINGS = (
    "requests tokens requests-minute requests-hour requests-day tokens-minute tokens-hour tokens-day tokens-prompt "
    "tokens-cached-prompt tokens-generated input-tokens output-tokens req-minute"
).split()
LIMIT_HEADERS = frozenset(
    {
        "x-ratelimit-remaining",
        "x-tokenlimit-remaining",
        *(f"x-ratelimit-remaining-{ending}" for ending in _ENDINGS),
        *(f"anthropic-ratelimit-{ending}-remaining" for ending in _ENDINGS),
    }
)
"""Names of remaining limits: OpenAI, Azure, Groq and xAI, Cerebras, SambaNova and Mistral by window, Fireworks by kind of
token, Together and OpenRouter without either, Anthropic in its own order. `reset` for `remaining` gives the time of the reset,
`limit` the whole amount.
"""
REPORTED = LIMIT_HEADERS | PLAN_HEADERS
"""An answer with one of these is read for limits or a plan's windows."""
_OF_ANSWER = re.compile("generated|output")
_FILLS_STEADILY = re.compile(r"anthropic-.*|x-ratelimit-remaining-(?:requests|tokens)")
_DURATION = re.compile(r"[0-9.]+[a-z].*")
"""OpenAI, Azure and Groq give a duration with units until a limit that refills continuously is whole; Anthropic gives that
moment. Others give seconds, or the moment a fixed window ends.
"""
_MINUTE = "-minute"
_MAX_KEPT = 1_000
"""Callers with their own keys; the oldest are dropped first."""

_Place = tuple[str, int]


def read_windows(headers: Mapping[str, str], now: float, wall: float | None = None) -> tuple[LimitWindow, ...]:
    """Remaining limits of windows with a known reset. `wall` is the time of day, as in `waits`."""
    found = []
    for name in LIMIT_HEADERS.intersection(headers):
        reset = headers.get(name.replace("remaining", "reset"), "60" if name.endswith(_MINUTE) else "").strip()
        wait, left = read_wait(reset, headers, now=wall), _read_amount(headers[name])
        if wait is None or left is None:
            continue
        limit = None
        if _FILLS_STEADILY.fullmatch(name) and (name.startswith("anthropic-") or _DURATION.fullmatch(reset)):
            limit = _read_amount(headers.get(name.replace("remaining", "limit"), ""))
        counts_prompt = "token" in name and _OF_ANSWER.search(name) is None
        found.append(LimitWindow(left, now + wait, counts_prompt, limit, now))
    return tuple(found)


def _read_amount(text: str) -> float | None:
    try:
        amount = float(text)
    except ValueError:
        return None
    return None if math.isnan(amount) else amount


def longest_wait(windows: tuple[LimitWindow, ...], prompt_tokens: int, now: float) -> float:
    """Seconds until all windows can take a request of this size."""
    return max([window.wait(prompt_tokens, now) for window in windows], default=0.0)


def refused_wait(windows: tuple[LimitWindow, ...], now: float) -> float:
    """Seconds until spent windows reset, for a refused request of any size."""
    return max([window.wait(math.inf, now) for window in windows if window.left < 1], default=0.0)


class RateLimits:
    def __init__(self) -> None:
        self.told: dict[_Place, tuple[LimitWindow, ...]] = {}
        self.plans = Plans()
        self.is_on = False
        """Whether a target reported limits, or is a plan: decisions skip the check until then."""

    def note(self, exchange: Exchange, fact: LimitsTold) -> None:
        read = exchange.last(Read)
        key = _key_of(fact.target, read.view if read is not None else None)
        self.told.pop(key, None)
        self.told[key], self.is_on = fact.windows, True
        if len(self.told) > _MAX_KEPT:
            del self.told[next(iter(self.told))]

    def spend(self, exchange: Exchange, target: Target, prompt_tokens: int) -> None:
        """Deduct a request until its answer reports what is left."""
        read = exchange.last(Read)
        key = _key_of(target, read.view if read is not None else None)
        if windows := self.told.get(key):
            self.told[key] = tuple(
                window._replace(left=window.left - (prompt_tokens if window.counts_prompt else 1)) for window in windows
            )

    def close(self, exchange: Exchange, target: Target, until: float) -> None:
        """Note a refusal for one of several keys: nothing is left until then."""
        self.note(exchange, LimitsTold(target, (LimitWindow(0, until, counts_prompt=False),)))

    def apply(self, signals: Signals, view: RequestView, now: float) -> Signals:
        """Add the wait for a limit to each target with too little left for this request."""
        tokens, statuses = signals.prompt.tokens, signals.statuses
        limited = {name: self._with_limits(status, view, tokens, now) for name, status in statuses.items()}
        plans = [name for name, status in limited.items() if status.target.is_plan]
        signals = replace(signals, statuses=limited) if limited != statuses else signals
        return self.plans.apply(signals, plans, view, now) if plans else signals

    def _with_limits(self, status: TargetStatus, view: RequestView, tokens: int, now: float) -> TargetStatus:
        key = _key_of(status.target, view)
        windows = self.told.get(key)
        if windows is None:
            return status
        if max(window.resets_at for window in windows) <= now:
            del self.told[key]
            return status
        wait = longest_wait(windows, tokens, now)
        if wait <= status.wait_seconds:
            return status
        because = f"{status.target.name} is at its rate limit for another {math.ceil(wait)} s"
        return status.with_wait(wait, because)


def _key_of(target: Target, view: RequestView | None) -> _Place:
    """Callers with their own keys have their own limits. Only a key's hash is kept, and never on disk."""
    if view is None or not target.takes_callers_key:
        return target.name, 0
    return target.name, hash(credential_for(target, view.headers, view.dialect))
