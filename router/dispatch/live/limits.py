"""What targets say is left of their rate limits: read from the headers of any answer, and limited by the next decision.

A target that has too little left for a request is not ruled out. The time until its limit opens again is an expected wait like
any other, so that it is passed over only while another is sooner done.
"""

import math
import re
from collections.abc import Mapping

from msgspec.structs import replace

from router.contract.exchange import Exchange
from router.contract.facts import LimitsTold, Read
from router.contract.request import RequestView
from router.contract.secret import read_callers_key
from router.contract.signals import Signals
from router.contract.target import LimitWindow, Target, TargetStatus
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
"""How hosts name what is left: OpenAI, Azure, Groq and xAI, Cerebras, SambaNova and Mistral by window, Fireworks by kind of
token, Together and OpenRouter without either, Anthropic in an order of its own. With `reset` for `remaining`, when it is whole
again, and with `limit`, how much that is."""
_OF_ANSWER = re.compile("generated|output")
_FILLS_STEADILY = re.compile(r"anthropic-.*|x-ratelimit-remaining-(?:requests|tokens)")
_DURATION = re.compile(r"[0-9.]+[a-z].*")
"""OpenAI, Azure and Groq give a duration with its units, until a limit is whole again that fills up all the time; Anthropic the
moment. Others give seconds or a moment at which a window ends, and nothing comes back before it."""
_MINUTE = "-minute"
_MAX_KEPT = 1_000
"""Callers with a key of their own. The one that was heard of first is forgotten first."""

_Place = tuple[str, int]
"""A target, and whose key was used there."""


def read_windows(headers: Mapping[str, str], now: float, wall: float | None = None) -> tuple[LimitWindow, ...]:
    """What is left in each window, for those that say when they open again. `wall` is the time of day, as in `waits`."""
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
    """How long until all of them can take a request of this size: none if they can now."""
    return max([window.wait(prompt_tokens, now) for window in windows], default=0.0)


def refused_wait(windows: tuple[LimitWindow, ...], now: float) -> float:
    """How long until those that are spent open again, for a request that was refused, whatever its size was."""
    return max([window.wait(math.inf, now) for window in windows if window.left < 1], default=0.0)


class RateLimits:
    """What every target last said. A new answer takes the place of an older one."""

    def __init__(self) -> None:
        self.told: dict[_Place, tuple[LimitWindow, ...]] = {}
        """Empty where no target speaks of limits: then no decision need ask."""

    def note(self, exchange: Exchange, fact: LimitsTold) -> None:
        read = exchange.last(Read)
        key = _key_of(fact.target, read.view if read is not None else None)
        self.told.pop(key, None)
        self.told[key] = fact.windows
        if len(self.told) > _MAX_KEPT:
            del self.told[next(iter(self.told))]

    def spend(self, exchange: Exchange, target: Target, prompt_tokens: int) -> None:
        """A request goes there: until its answer tells what is left, so much less is."""
        read = exchange.last(Read)
        key = _key_of(target, read.view if read is not None else None)
        if windows := self.told.get(key):
            self.told[key] = tuple(
                window._replace(left=window.left - (prompt_tokens if window.counts_prompt else 1)) for window in windows
            )

    def close(self, exchange: Exchange, target: Target, until: float) -> None:
        """Take a refusal for one key of many: nothing is left there until then."""
        self.note(exchange, LimitsTold(target, (LimitWindow(0, until, counts_prompt=False),)))

    def apply(self, signals: Signals, view: RequestView, now: float) -> Signals:
        """The same signals, with the wait for a limit at each target that has too little left for this request."""
        tokens, statuses = signals.prompt.tokens, signals.statuses
        limited = {name: self._with_limits(status, view, tokens, now) for name, status in statuses.items()}
        return replace(signals, statuses=limited) if limited != statuses else signals

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
    """Where callers bring their own keys, each has limits of its own. Of a key only its hash is kept, and not on disk."""
    if view is None or not target.takes_callers_key:
        return target.name, 0
    return target.name, hash(read_callers_key(view.headers, view.dialect))
