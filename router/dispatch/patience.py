"""How long a stream may wait for its first byte before its request moves to another target.

Most hosts bill tokens once there are some, so leaving a queue costs nothing. Without a limit, a request moves only if the
target seems to have no free slot, and another would begin much sooner.
"""

import asyncio

from router.contract.clock import CLOCK
from router.contract.errors import TandemError, UpstreamQueued
from router.contract.request import RequestView
from router.contract.target import Target
from router.contract.words import Tier
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.relay import Relay
from router.dispatch.rules import candidates_of

_LOOK_AGAIN_SECONDS = 1.0
_EARLY_SECONDS = 0.001
_TIMES_USUAL = 2.0
"""Times the usual wait, for a target that usually exceeds the limit: it may have no queue at all."""
_FIRST_LOOK_SECONDS = 2.0
_MUCH_SOONER, _MARGIN_SECONDS = 0.5, 0.5
"""Without a limit: part of the remaining wait within which another must begin, less a margin."""


def max_wait_of(view: RequestView, target: Target) -> float | None:
    """The longest wait by the caller's word, else the config's; None: unlimited."""
    asked = view.overrides.max_wait_seconds
    return asked if asked is not None else target.max_wait_seconds


class Patience:
    """Ends a call whose first byte is overdue if another target would begin sooner."""

    __slots__ = ("_first_seconds", "_live", "_max_seconds", "_others", "_relay", "_timer")

    def __init__(self, relay: Relay, live: LiveStatistics, max_seconds: float | None) -> None:
        self._relay, self._live, self._max_seconds = relay, live, max_seconds
        self._others = _others(relay)
        self._timer: asyncio.TimerHandle | None = None
        if self._others:
            usual = live.of(relay.opened.target).pace.usual_seconds(relay.context.decision.prompt_tokens)
            self._first_seconds = max(_FIRST_LOOK_SECONDS if max_seconds is None else max_seconds, _TIMES_USUAL * usual)
            self._wait(self._first_seconds)
            relay.finished.add_done_callback(self._drop)

    def _wait(self, seconds: float) -> None:
        self._timer = self._relay.finished.get_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        relay = self._relay
        if relay.has_reached_caller:
            return
        now = relay.context.clock()
        waited = CLOCK.ran(relay.opened.at, now)
        if waited < self._first_seconds - _EARLY_SECONDS:  # this process was paused: read first what came meanwhile
            self._wait(self._first_seconds - waited)
        elif any(self._is_sooner(target, waited, now) for target in self._others):
            name = relay.opened.target.name
            relay.fail(UpstreamQueued(name, f'target "{name}" had not begun after {waited:.1f} s'))
        else:
            self._wait(_LOOK_AGAIN_SECONDS)

    def _is_sooner(self, target: Target, waited: float, now: float) -> bool:
        context, opened, live = self._relay.context, self._relay.opened, self._live
        decision = context.decision
        max_wait = waited
        if self._max_seconds is None:
            left = live.of(opened.target).queue.wait_left(context.exchange.id, now)
            max_wait = left * _MUCH_SOONER - _MARGIN_SECONDS - live.of(target).pace.usual_seconds(decision.prompt_tokens)
        return live.is_sooner(target, decision.signals, self._relay.view, max_wait, now)

    def _drop(self, _: "asyncio.Future[TandemError | None]") -> None:
        if self._timer is not None:
            self._timer.cancel()


def _others(relay: Relay) -> tuple[Target, ...]:
    """From deep to fast only by the caller's own limit: there it may have to be done twice."""
    context, own = relay.context, relay.opened.target
    names = candidates_of(context.decision)
    rest = names[names.index(own.name) + 1 :]
    targets = (context.decision.signals.statuses[name].target for name in rest)
    is_asked = relay.view.overrides.max_wait_seconds is not None
    return tuple(target for target in targets if is_asked or own.tier is Tier.FAST or target.tier is own.tier)
