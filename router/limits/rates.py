"""How much a caller may use in a minute, and at once: requests and tokens, counted by one meter for each caller.

The meters outlive a plan. A request is counted by the limits of the plan that it began with.
"""

import math
import time
from collections.abc import Callable, Sequence

from router.contract.allowance import Allowance, Left
from router.contract.caller import Caller
from router.contract.errors import RateLimited
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Fact, QuestionEnded
from router.contract.request import JsonObject
from router.contract.rights import Rights
from router.contract.target import Quota
from router.contract.words import Operation
from router.limits.limit import unknown
from router.limits.quota import Grant, Meter
from router.limits.whole import ALONE
from router.telemetry import events

MINUTE_SECONDS = 60.0
_FEW_METERS = 256
_NO_QUOTA = Quota()


class Counted(Grant):
    """A request of a caller, on its meter."""

    __slots__ = ("_meter",)

    def __init__(self, meter: Meter, at: float, tokens: int) -> None:
        super().__init__(at, tokens)
        self._meter = meter

    @property
    def left(self) -> tuple[Left, ...]:
        """What the caller has left, with this request counted."""
        return self._meter.report(self.at)

    def _settle(self, facts: Sequence[Fact], now: float) -> None:
        """Count what all attempts took together. A request for which no target was called is not counted."""
        if not any(isinstance(fact, AttemptOpened) for fact in facts):
            self._release(now)
            return
        ended = [fact for fact in facts if isinstance(fact, AttemptEnded) and not isinstance(fact, QuestionEnded)]
        usages = [fact.usage for fact in ended if fact.usage is not None]
        if usages:
            told = sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages)
            self._meter.end(self, now, *told)
        else:
            self._meter.end(self, now)
            self._meter.charge(self, self.requests, 0)

    def _release(self, now: float) -> None:
        self._meter.take_back(self)


class CallerRates:
    """The meters of all callers that have a limit."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, allowance: Allowance = ALONE) -> None:
        self.clock, self._allowance = clock, allowance
        self._meters: dict[str, Meter] = {}
        self._told_at: dict[str, float] = {}
        """When it was last logged that a caller reached a limit."""
        self._most = _FEW_METERS

    def __len__(self) -> int:
        """How many callers have a meter."""
        return len(self._meters)

    async def hold(self, caller: str, rights: Rights, decided: Decided | None) -> Counted | None:
        """Count a request; None where its caller has no such limit. `decided` is None for one that is passed on.

        Raises `RateLimited` where there is no room, or `StoreUnavailable` where nobody knows whether there is.
        """
        quota = quota_of(rights)
        if quota is None:
            return None
        meter = self._find(caller, quota)
        is_counted = decided is not None and decided.view.operation is not Operation.COUNT_TOKENS
        tokens = meter.expect_tokens(decided.decision.prompt_tokens) if decided is not None and is_counted else 0
        if not await meter.reach_room(tokens):
            if meter.is_blind:
                raise unknown("how much of its limits this key has used")
            raise self._refuse(caller, meter, tokens)
        counted = Counted(meter, self.clock(), tokens)
        meter.take(counted)
        return counted

    def check(self, caller: str, rights: Rights) -> None:
        """Refuse a caller that has used up its minute, before more than a head is read. Counts nothing: `hold` does.

        Raises `RateLimited`.
        """
        quota = quota_of(rights)
        if quota is None or caller not in self._meters:
            return
        meter = self._find(caller, quota)
        if not meter.is_blind and not meter.free_part():
            raise self._refuse(caller, meter, meter.expect_tokens(0))

    def report(self, caller: str, rights: Rights) -> tuple[Left, ...]:
        """What a caller has left, for a request that is not counted."""
        quota = quota_of(rights)
        if quota is None:
            return ()
        meter = self._find(caller, quota) if caller in self._meters else Meter(quota)
        return meter.report(self.clock())

    def show(self, caller: Caller, rights: Rights) -> JsonObject:
        """The used and left part of each limit that a caller has, by its name."""
        quota = quota_of(rights)
        if quota is None:
            return {}
        meter = self._find(caller.name, quota) if caller.name in self._meters else Meter(quota)
        return {
            name: {"used": meter.uses[name][0], "limit": meter.uses[name][1], "left": left} for name, left in meter.left.items()
        }

    def _find(self, name: str, quota: Quota) -> Meter:
        """The meter of a caller, by the limits that it has now."""
        meter = self._meters.get(name)
        if meter is None:
            self._forget_idle()
            meter = self._meters[name] = Meter(quota, MINUTE_SECONDS, self._allowance, ("caller", name), self.clock)
        meter.quota = quota
        # Where no minute is counted nothing need be kept for one, however many requests come in it.
        meter.expire(self.clock() if meter.counts_minutes else math.inf)
        return meter

    def _refuse(self, name: str, meter: Meter, tokens: int) -> RateLimited:
        now = self.clock()
        wait = meter.wait(tokens, now)
        if now >= self._told_at.get(name, -math.inf) + MINUTE_SECONDS:
            self._told_at[name] = now
            events.caller_limited(caller=name, limit=wait.limit, seconds=round(wait.seconds, 1))
        words = f"this key has used up its {wait.limit}. Try again in {max(1, math.ceil(wait.seconds))} s"
        return RateLimited(words, retry_after_seconds=wait.seconds, left=meter.report(now))

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
