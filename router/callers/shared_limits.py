"""Limits of callers that several routers share: what this router lacks is asked for before a request is counted."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol, runtime_checkable

from router.callers.guard import CallerLimit, GuardedDispatcher, carry_along
from router.callers.rates import MINUTE_SECONDS, CallerRates, expect_tokens, quota_of
from router.contract.allowance import Allowance
from router.contract.caller import Caller
from router.contract.errors import StoreUnavailable
from router.contract.exchange import Exchange, Passed
from router.contract.facts import Decided, Ending
from router.contract.relay import Headers, Sink
from router.contract.request import JsonObject
from router.contract.rights import Rights
from router.contract.sinks import AnswerSink
from router.contract.target import Quota, Target
from router.contract.words import Tier
from router.dispatch.context import DispatchContext
from router.dispatch.dispatch import Dispatcher
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.queues.shared_quota import SharedMeter
from router.dispatch.rules import GiveUp, Tried, Try

RETRY_SECONDS = 2.0
"""When to try again while the store cannot be used: it is probed twice a second."""


class AwaitedLimit(CallerLimit, Protocol):
    """A limit that may have to be asked for elsewhere."""

    async def reach(self, exchange: Exchange, decided: Decided | None, rights: Rights) -> None:
        """Try to have what a request needs. `CallerLimit.hold` takes it, or says that there is too little.

        Raises `StoreUnavailable` where that is not known.
        """
        ...


@runtime_checkable
class AwaitedAttempts(Protocol):
    """A limit charged per attempt that may have to be asked for elsewhere."""

    async def reach_another(self, exchange: Exchange, target: Target) -> None:
        """Try to have what a further attempt at this target needs."""
        ...


class SharedRates(CallerRates):
    """The meters of all callers, each with this router's part of the caller's limits."""

    def __init__(self, allowance: Allowance, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._allowance = allowance

    def make_meter(self, name: str, quota: Quota) -> SharedMeter:
        return SharedMeter(quota, self._allowance, ("caller", name), self.clock, _nobody_waits, MINUTE_SECONDS)

    def turn_away(self, rights: Mapping[str, Rights], caller: Caller) -> None:
        meter = self._meters.get(caller.name)
        if not isinstance(meter, SharedMeter) or not meter.is_blind:
            super().turn_away(rights, caller)

    async def reach(self, exchange: Exchange, decided: Decided | None, rights: Rights) -> None:
        if (quota := quota_of(rights)) is None:
            return
        meter = self.find(exchange.caller.name, quota)
        if not isinstance(meter, SharedMeter):
            return
        tokens = expect_tokens(meter, decided)
        await meter.reach_room(tokens)
        if meter.is_blind and not meter.has_room(tokens, self.clock()):
            raise unknown("how much of its limits this key has used")


def _nobody_waits() -> None:
    """A caller is refused at once."""


def unknown(what: str) -> StoreUnavailable:
    words = (
        f"{what} is not known: the store that the routers share cannot be used, and this router's part is used up. "
        f"Try again in {RETRY_SECONDS:g} s"
    )
    return StoreUnavailable(words, retry_after_seconds=RETRY_SECONDS)


class SharedGuard(GuardedDispatcher):
    """A dispatcher that asks limits which may have to be asked for elsewhere."""

    _limits: Sequence[AwaitedLimit]

    async def _send_within(
        self,
        rights: Rights,
        exchange: Exchange,
        decided: Decided,
        sink: AnswerSink,
        live: LiveStatistics,
        explanation: JsonObject | None,
        carried: Mapping[Tier, Headers],
    ) -> Ending:
        with ExitStack() as held:
            told = [await self._hold(held, limit, exchange, decided, rights) for limit in self._limits]
            carried = carry_along(carried, told)
            return await Dispatcher.send(self, exchange, decided, sink, live, explanation=explanation, carried=carried)

    async def choose_next(self, context: DispatchContext, tried: Sequence[Tried]) -> Try | GiveUp:
        step = await Dispatcher.choose_next(self, context, tried)
        if isinstance(step, Try):
            target = self._reachable[step.target].target
            for limit in self._of_attempts:
                if isinstance(limit, AwaitedAttempts):
                    await limit.reach_another(context.exchange, target)
                limit.allow_another(context.exchange, target)
        return step

    async def _pass_within(self, rights: Rights, exchange: Exchange, passed: Passed, target: str, sink: Sink) -> Ending:
        with ExitStack() as held:
            for limit in self._limits:
                await self._hold(held, limit, exchange, None, rights)
            return await Dispatcher.pass_on(self, exchange, passed, target, sink)

    @staticmethod
    async def _hold(
        held: ExitStack, limit: AwaitedLimit, exchange: Exchange, decided: Decided | None, rights: Rights
    ) -> Headers:
        """Nothing comes between reaching what is needed and taking it."""
        await limit.reach(exchange, decided, rights)
        return held.enter_context(limit.hold(exchange, decided, rights))
