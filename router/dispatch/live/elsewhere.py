"""Live statistics of several routers that share a server: what this one sees by its own calls, and what the others report.

What others report is laid over what was seen here and changes nothing of it: it counts for as long as they repeat it, and for
five seconds more. So a router that is alone again is left with its own observations, and no report is ever passed on.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from router.contract.pulse import FORGOTTEN_SECONDS, Pulse, SpeedSeen, TargetNews, TargetsTold
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.target import Speed, Target, TargetStatus
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.live.target import RESTED_WAIT_SECONDS, LiveTarget

_SPEED_TOLD_SECONDS = 60.0
"""How long after it was last seen a speed is still reported. It fades into what is usual meanwhile."""
_PROBING_SECONDS = 1.0
"""What is reported of a rest that is over, while one request finds out."""
_OWN_COUNTS_SECONDS = 5.0
"""A target that lately served this router does not rest here because another cannot reach it."""
_NOTHING = TargetNews()


class _Heard(NamedTuple):
    at: float
    targets: Mapping[str, TargetNews]


class LiveEverywhere(LiveStatistics):
    """The same as of one router, with what the others report of queues, limits, rests and speeds."""

    def __init__(self, pulse: Pulse, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__()
        self._pulse, self._clock = pulse, clock
        self._heard: dict[str, _Heard] = {}
        self._own: Mapping[str, TargetStatus] = {}
        """What was seen here, when what the others report was last laid over it; the outcome of that."""
        self._together: Mapping[str, TargetStatus] = {}
        self._has_told = False
        pulse.hear(TargetsTold, self._hear)
        pulse.on_beat(self._tell)

    def statuses(self, targets: Mapping[str, Target], now: float) -> Mapping[str, TargetStatus]:
        own = super().statuses(targets, now)
        if not self._heard:
            return own
        if own is not self._own:
            self._own, self._together = own, self._lay_over(own, now)
        return self._together

    def is_sooner(self, target: Target, signals: Signals, view: RequestView, seconds: float, now: float) -> bool:
        status = self._combine(self.of(target).status(now), now)
        waits_elsewhere = bool(status.closed_seconds) or status.wait_seconds >= seconds
        return not waits_elsewhere and super().is_sooner(target, signals, view, seconds, now)

    def least_busy_first(self, names: Sequence[str]) -> list[str]:
        """Targets by how many calls they have, of all routers."""
        now = self._clock()
        elsewhere = {name: sum(news.in_flight for _, news in self._news_of(name, now)) for name in names}
        own = {name: len(live.queue.open) for name in names if (live := self._live.get(name))}
        busy = {name: own.get(name, 0) + self.queues.waiting_for(name) + elsewhere[name] for name in names}
        return sorted(names, key=lambda name: busy[name])

    def _hear(self, teller: str, fact: TargetsTold) -> None:
        now = self._clock()
        self._heard[teller] = _Heard(now, fact.targets)
        self._forget(now)
        self._own = {}  # the next decision must know

    def _forget(self, now: float) -> None:
        for teller in [teller for teller, heard in self._heard.items() if now - heard.at > FORGOTTEN_SECONDS]:
            del self._heard[teller]

    def _lay_over(self, own: Mapping[str, TargetStatus], now: float) -> Mapping[str, TargetStatus]:
        self._forget(now)
        together = {name: self._combine(status, now) for name, status in own.items()}
        if together and all(status.is_resting for status in together.values()):
            # As with one router: where every target rests, none is better for waiting.
            together = {name: status.with_wait(0.0) for name, status in together.items()}
        return together

    def _news_of(self, name: str, now: float) -> list[tuple[float, TargetNews]]:
        """What each router reports of a target that reports something, and how long ago it did."""
        return [
            (now - at, news)
            for at, targets in self._heard.values()
            if (news := targets.get(name)) is not None and now - at <= FORGOTTEN_SECONDS
        ]

    def _combine(self, status: TargetStatus, now: float) -> TargetStatus:
        """A target by what was seen here and what others report of it: the longest wait, and the newest speed."""
        told, name = self._news_of(status.target.name, now), status.target.name
        if not told:
            return status
        live = self.of(status.target)
        in_flight = status.in_flight + sum(news.in_flight for _, news in told)
        status = structs.replace(status, in_flight=in_flight, speed=_newest_speed(live, status.speed, told, now))
        wait = max(news.wait_seconds - age for age, news in told)
        if wait > status.wait_seconds:
            status = status.with_wait(wait)
        closed = max(news.closed_seconds - age for age, news in told)
        if closed > (0.0 if status.is_over_max_wait else status.closed_seconds):
            # Whoever was told the time finds out whether it was right: not every router once more.
            status = structs.replace(status, closed_seconds=closed, is_over_max_wait=False, may_probe=False)
        resting = [news.failures for age, news in told if news.rest_seconds > age]
        serves_here = not live.circuit.failures and now - live.circuit.served_at < _OWN_COUNTS_SECONDS
        if resting and not serves_here:
            because = f"{name} rests after {max(1, *resting)} failures in a row at another router"
            status = status.with_wait(max(status.wait_seconds, RESTED_WAIT_SECONDS), because, is_resting=True)
        return status

    def _tell(self) -> None:
        """Report what was seen here, if there is anything to say, and once that there no longer is."""
        now = self._clock()
        targets = {name: news for name in self._listed if (news := _describe(self._live[name], now)) != _NOTHING}
        if targets or self._has_told:
            self._pulse.tell(TargetsTold(targets))
        self._has_told = bool(targets)


def _describe(live: LiveTarget, now: float) -> TargetNews:
    """One target by the calls of this router alone."""
    status, circuit = live.status(now), live.circuit
    rest = max(circuit.rested_until - now, _PROBING_SECONDS) if circuit.is_resting(now) else 0.0
    return TargetNews(
        in_flight=len(live.queue.open),
        wait_seconds=0.0 if status.is_resting else _finite(status.wait_seconds),
        closed_seconds=0.0 if status.loading or status.is_over_max_wait else _finite(status.closed_seconds),
        rest_seconds=rest,
        failures=circuit.failures if rest else 0,
        speed=_speed_seen(live, status.speed, now),
    )


def _finite(seconds: float) -> float:
    return round(min(max(seconds, 0.0), 1e6), 3) if math.isfinite(seconds) else 1e6


def _speed_seen(live: LiveTarget, speed: Speed, now: float) -> SpeedSeen | None:
    age = now - live.pace.seen_at
    if age > _SPEED_TOLD_SECONDS or min(speed) <= 0:
        return None
    ttft, tokens, prefill = (float(f"{figure:.4g}") for figure in speed)
    return SpeedSeen(ttft, tokens, prefill, round(max(age, 0.0), 1))


def _newest_speed(live: LiveTarget, own: Speed, told: Sequence[tuple[float, TargetNews]], now: float) -> Speed:
    seen = [(age + news.speed.age_seconds, news.speed) for age, news in told if news.speed is not None]
    if not seen:
        return own
    age, newest = min(seen, key=lambda one: one[0])
    if now - live.pace.seen_at <= age:
        return own
    return Speed(newest.ttft_seconds, newest.tokens_per_second, newest.prefill_tokens_per_second)
