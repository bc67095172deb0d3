"""How much a caller may use in a minute, and at once: requests and tokens, counted by one meter for each caller.

The meters outlive a plan. A request is counted by the limits of the plan that it began with.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from router.contract.caller import Caller
from router.contract.errors import RateLimited
from router.contract.exchange import Exchange
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, QuestionEnded
from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.contract.rights import USUAL, Rights
from router.contract.target import Quota
from router.contract.words import Operation
from router.limits.limit import CallerLimit
from router.limits.quota import Grant, Meter, Wait
from router.telemetry import events

MINUTE_SECONDS = 60.0
_FEW_METERS = 256
_TOLD_NOTHING: Headers = ()
_NO_QUOTA = Quota()


class CallerRates(CallerLimit):
    """The meters of all callers that have a limit. A request that calls no target is not counted."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._meters: dict[str, Meter] = {}
        self._told_at: dict[str, float] = {}
        """When it was last logged that a caller reached a limit."""
        self._most = _FEW_METERS

    def make_meter(self, name: str, quota: Quota) -> Meter:
        return Meter(quota, MINUTE_SECONDS)

    def __len__(self) -> int:
        """How many callers have a meter."""
        return len(self._meters)

    @contextmanager
    def hold(self, exchange: Exchange, decided: Decided | None, rights: Rights) -> Iterator[Headers]:
        """Count a request, and when it is over what it really took. Raises `RateLimited` where there is no room for it."""
        quota = quota_of(rights)
        if quota is None:
            yield _TOLD_NOTHING
            return
        name, now = exchange.caller.name, self.clock()
        meter = self.find(name, quota)
        tokens = expect_tokens(meter, decided)
        if not meter.has_room(tokens, now):
            raise self._refuse(name, meter.wait(tokens, now), now)
        grant = meter.take(tokens, now)
        try:
            yield _TOLD_NOTHING
        finally:
            _settle(meter, grant, exchange, self.clock())

    def turn_away(self, rights: Mapping[str, Rights], caller: Caller) -> None:
        """Refuse a caller that has used up its minute, before more than a head is read, or another target is asked about it.

        Counts nothing: `hold` does. Raises `RateLimited`.
        """
        quota = quota_of(rights.get(caller.name, USUAL))
        if quota is None or caller.name not in self._meters:
            return
        meter, now = self.find(caller.name, quota), self.clock()
        if not meter.free_part():
            raise self._refuse(caller.name, meter.wait(meter.expect_tokens(0), now), now)

    def show(self, caller: Caller, rights: Rights) -> JsonObject:
        """The used and left part of each limit that a caller has, by its name."""
        quota = quota_of(rights)
        if quota is None:
            return {}
        meter = self.find(caller.name, quota) if caller.name in self._meters else Meter(quota)
        used = {
            "requests_per_minute": (meter.requests, quota.requests_per_minute),
            "tokens_per_minute": (meter.tokens, quota.tokens_per_minute),
            "in_flight": (meter.in_flight, quota.in_flight),
        }
        return {
            name: {"used": count, "limit": limit, "left": max(0, limit - count)}
            for name, (count, limit) in used.items()
            if limit is not None
        }

    def find(self, name: str, quota: Quota) -> Meter:
        """The meter of a caller, by the limits that it has now."""
        meter = self._meters.get(name)
        if meter is None:
            self._forget_idle()
            meter = self._meters[name] = self.make_meter(name, quota)
        meter.quota = quota
        # Where no minute is counted nothing need be kept for one, however many requests come in it.
        meter.expire(self.clock() if meter.counts_minutes else math.inf)
        return meter

    def _refuse(self, name: str, wait: Wait, now: float) -> RateLimited:
        if now >= self._told_at.get(name, -math.inf) + MINUTE_SECONDS:
            self._told_at[name] = now
            events.caller_limited(caller=name, limit=wait.limit, seconds=round(wait.seconds, 1))
        words = f"this key has used up its {wait.limit}. Try again in {max(1, math.ceil(wait.seconds))} s"
        return RateLimited(words, retry_after_seconds=wait.seconds)

    def _forget_idle(self) -> None:
        """Drop the meters with nothing on them, now and then: callers come and go with their keys."""
        if len(self._meters) < self._most:
            return
        now = self.clock()
        for meter in self._meters.values():
            meter.expire(now)
        for name, meter in tuple(self._meters.items()):
            if not meter.requests and not meter.in_flight:
                del self._meters[name]
                meter.close()
        self._told_at = {name: at for name, at in self._told_at.items() if name in self._meters}
        self._most = max(_FEW_METERS, 2 * len(self._meters))


def quota_of(rights: Rights) -> Quota | None:
    """The limits that a meter counts by; None for a caller without any."""
    quota = Quota(rights.requests_per_minute, rights.tokens_per_minute, rights.in_flight)
    return None if quota == _NO_QUOTA else quota


def expect_tokens(meter: Meter, decided: Decided | None) -> int:
    """How many tokens a request will take: none where it is passed on, or only counts them."""
    if decided is None or decided.view.operation is Operation.COUNT_TOKENS:
        return 0
    return meter.expect_tokens(decided.decision.prompt_tokens)


def _settle(meter: Meter, grant: Grant, exchange: Exchange, now: float) -> None:
    """Count what all attempts took together. What no target was called for is not counted."""
    if exchange.last(AttemptOpened) is None:
        meter.forget(grant)
        return
    ended = [fact for fact in exchange.journal if isinstance(fact, AttemptEnded) and not isinstance(fact, QuestionEnded)]
    usages = [fact.usage for fact in ended if fact.usage is not None]
    if usages:
        meter.end(grant, now, sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages))
    else:
        meter.end(grant, now)
        meter.charge(grant, grant.requests, 0)
