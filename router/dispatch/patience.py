"""How long a stream may wait for its first byte before its request moves to another target.

Most hosts bill tokens once there are some, so leaving a queue costs nothing.
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


def max_wait_of(view: RequestView, target: Target) -> float | None:
    """The longest wait by the caller's word, else the config's; None: unlimited."""
    asked = view.overrides.max_wait_seconds
    return asked if asked is not None else target.max_wait_seconds


class Patience:
    """Ends a call whose first byte is overdue if another target would begin sooner."""

    __slots__ = ("_first_seconds", "_live", "_others", "_relay", "_timer")

    def __init__(self, relay: Relay, live: LiveStatistics, max_seconds: float) -> None:
        self._relay, self._live = relay, live
        self._others = _others(relay)
        self._timer: asyncio.TimerHandle | None = None
        if self._others:
            usual = live.of(relay.opened.target).pace.usual_seconds(relay.context.decision.prompt_tokens)
            self._first_seconds = max(max_seconds, _TIMES_USUAL * usual)
            self._wait(self._first_seconds)
            relay.finished.add_done_callback(self._drop)

    def _wait(self, seconds: float) -> None:
        self._timer = self._relay.finished.get_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        relay = self._relay
        if relay.has_reached_caller:
            return
        live, signals, now = self._live, relay.context.decision.signals, relay.context.clock()
        waited = CLOCK.ran(relay.opened.at, now)
        if waited < self._first_seconds - _EARLY_SECONDS:  # this process was paused: read first what came meanwhile
            self._wait(self._first_seconds - waited)
        elif any(live.is_sooner(target, signals, relay.view, waited, now) for target in self._others):
            name = relay.opened.target.name
            relay.fail(UpstreamQueued(name, f'target "{name}" had not begun after {waited:.1f} s'))
        else:
            self._wait(_LOOK_AGAIN_SECONDS)

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
