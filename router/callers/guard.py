"""The guard before the dispatcher: where callers have limits, each is asked before the first target is called."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from router.contract.exchange import Exchange, Passed
from router.contract.facts import Decided, Ending
from router.contract.relay import Headers, Sink
from router.contract.request import JsonObject
from router.contract.rights import Rights
from router.contract.sinks import AnswerSink
from router.contract.words import Tier
from router.dispatch.context import DispatchContext
from router.dispatch.dispatch import Dispatcher
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.outgoing import Reachable
from router.dispatch.rules import GiveUp, Tried, Try
from router.limits.limit import CallerLimit


def carry_along(carried: Mapping[Tier, Headers], told: Sequence[Headers]) -> Mapping[Tier, Headers]:
    """What an answer from each tier carries, with what the limits tell its caller."""
    if not any(told):
        return carried
    return {tier: (*carried.get(tier, ()), *(header for headers in told for header in headers)) for tier in Tier}


class GuardedDispatcher(Dispatcher):
    """A dispatcher that asks the limits of callers first."""

    def __init__(
        self,
        reachable: Mapping[str, Reachable],
        *,
        max_response_bytes: int,
        clock: Callable[[], float],
        rights: Mapping[str, Rights],
        limits: Sequence[CallerLimit],
    ) -> None:
        super().__init__(reachable, max_response_bytes=max_response_bytes, clock=clock)
        self._limited, self._limits = {name: own for name, own in rights.items() if own.is_limited}, limits

    def send(
        self,
        exchange: Exchange,
        decided: Decided,
        sink: AnswerSink,
        live: LiveStatistics,
        *,
        explanation: JsonObject | None = None,
        carried: Mapping[Tier, Headers] = {},
    ) -> Coroutine[Any, Any, Ending]:
        """Send a request within the limits of its caller."""
        rights = self._limited.get(decided.view.caller.name)
        if rights is None:
            return super().send(exchange, decided, sink, live, explanation=explanation, carried=carried)
        return self._send_within(rights, exchange, decided, sink, live, explanation, carried)

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
            told = [await _hold(held, limit, exchange, decided, rights) for limit in self._limits]
            carried = carry_along(carried, told)
            return await super().send(exchange, decided, sink, live, explanation=explanation, carried=carried)

    async def choose_next(self, context: DispatchContext, tried: Sequence[Tried]) -> Try | GiveUp:
        """Charge the caller for a further attempt: one that failed may have been billed too."""
        step = await super().choose_next(context, tried)
        if isinstance(step, Try):
            target = self._reachable[step.target].target
            for limit in self._limits:
                await limit.reach_another(context.exchange, target)
                limit.allow_another(context.exchange, target)
        return step

    def pass_on(self, exchange: Exchange, passed: Passed, target: str, sink: Sink) -> Coroutine[Any, Any, Ending]:
        """Relay a request within the limits of its caller."""
        rights = self._limited.get(exchange.arrival.caller.name)
        if rights is None:
            return super().pass_on(exchange, passed, target, sink)
        return self._pass_within(rights, exchange, passed, target, sink)

    async def _pass_within(self, rights: Rights, exchange: Exchange, passed: Passed, target: str, sink: Sink) -> Ending:
        with ExitStack() as held:
            for limit in self._limits:
                await _hold(held, limit, exchange, None, rights)
            return await super().pass_on(exchange, passed, target, sink)


async def _hold(held: ExitStack, limit: CallerLimit, exchange: Exchange, decided: Decided | None, rights: Rights) -> Headers:
    """Nothing comes between reaching what is needed and taking it."""
    await limit.reach(exchange, decided, rights)
    return held.enter_context(limit.hold(exchange, decided, rights))
