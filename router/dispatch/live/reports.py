"""Reports about targets between routers that share a server.

They are laid over local observations without changing them, and expire five seconds after the last repetition. A report is
never passed on.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from router.contract.messages import FORGOTTEN_SECONDS, MAX_CLOSED_SECONDS, Messages, SpeedSeen, TargetReport, TargetReports
from router.contract.target import Speed, TargetStatus
from router.dispatch.live.target import RESTED_WAIT_SECONDS, LiveTarget

_SPEED_REPORTED_SECONDS = 60.0
_PROBING_SECONDS = 1.0
"""Reported wait while one request probes a rested target."""
_OWN_COUNTS_SECONDS = 5.0
"""A target that served this router lately does not rest here because another cannot reach it."""
_NOTHING = TargetReport()


class _Reported(NamedTuple):
    at: float
    targets: Mapping[str, TargetReport]


class OtherReports:
    """Empty if nothing is shared."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._reported: dict[str, _Reported] = {}
        self._closed_since: dict[str, float] = {}
        """By target, while any report closes it."""
        self._has_sent = False

    def exchange(self, messages: Messages, listed: Callable[[], Iterable[LiveTarget]], on_news: Callable[[], None]) -> None:
        """Start sending and receiving reports, twice a second, about the targets in `listed`."""

        def take(sender: str, reports: TargetReports) -> None:
            now = self._clock()
            self._forget_old(now)
            self._reported[sender] = _Reported(now, reports.targets)
            for name, report in reports.targets.items():
                if report.closed_seconds:
                    self._closed_since.setdefault(name, now)
            on_news()

        messages.subscribe(TargetReports, take)
        messages.on_tick(lambda: self._send(messages, listed()))

    def in_flight(self, name: str) -> int:
        return sum(report.in_flight for _, report in self._of(name, self._clock())) if self._reported else 0

    def apply(
        self, listed: Mapping[str, LiveTarget], own: Mapping[str, TargetStatus], now: float
    ) -> Mapping[str, TargetStatus]:
        self._forget_old(now)
        if not self._reported:
            return own
        together = {name: self.combine(listed[name], status, now) for name, status in own.items()}
        if all(status.is_resting for status in together.values()):
            # As with one router: if every target rests, waits do not distinguish them.
            return {name: status.with_wait(0.0) for name, status in together.items()}
        return together

    def combine(self, live: LiveTarget, status: TargetStatus, now: float) -> TargetStatus:
        """The longest wait and the newest speed."""
        name = status.target.name
        if not self._reported or not (reports := self._of(name, now)):
            return status
        in_flight = status.in_flight + sum(report.in_flight for _, report in reports)
        status = structs.replace(status, in_flight=in_flight, speed=_newest_speed(live, status.speed, reports, now))
        wait = min(max(report.wait_seconds - age for age, report in reports), MAX_CLOSED_SECONDS)
        if wait > status.wait_seconds:
            status = status.with_wait(wait)
        closed = max(report.closed_seconds - age for age, report in reports)
        closed = min(closed, self._closed_since.get(name, now) + MAX_CLOSED_SECONDS - now)
        if closed > (0.0 if status.is_over_max_wait else status.closed_seconds):
            # Only the router that was given the time probes.
            status = structs.replace(status, closed_seconds=closed, is_over_max_wait=False, may_probe=False)
        resting = [report.failures for age, report in reports if report.rest_seconds > age]
        serves_here = not live.circuit.failures and now - live.circuit.served_at < _OWN_COUNTS_SECONDS
        if resting and not serves_here:
            because = f"{name} rests after {max(1, *resting)} failures in a row at another router"
            status = status.with_wait(max(status.wait_seconds, RESTED_WAIT_SECONDS), because, is_resting=True)
        return status

    def _of(self, name: str, now: float) -> list[tuple[float, TargetReport]]:
        return [
            (now - at, report)
            for at, targets in self._reported.values()
            if (report := targets.get(name)) is not None and now - at <= FORGOTTEN_SECONDS
        ]

    def _forget_old(self, now: float) -> None:
        for sender in [sender for sender, (at, _) in self._reported.items() if now - at > FORGOTTEN_SECONDS]:
            del self._reported[sender]
        if self._closed_since:
            closed = {name for _, told in self._reported.values() for name, report in told.items() if report.closed_seconds}
            self._closed_since = {name: since for name, since in self._closed_since.items() if name in closed}

    def _send(self, messages: Messages, listed: Iterable[LiveTarget]) -> None:
        """Report local observations, and once that there are none left."""
        now = self._clock()
        targets = {live.target.name: report for live in listed if (report := _describe(live, now)) != _NOTHING}
        if targets or self._has_sent:
            messages.publish(TargetReports(targets))
        self._has_sent = bool(targets)


def _describe(live: LiveTarget, now: float) -> TargetReport:
    status, circuit = live.status(now), live.circuit
    rest = max(circuit.rested_until - now, _PROBING_SECONDS) if circuit.is_resting(now) else 0.0
    return TargetReport(
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
    if age > _SPEED_REPORTED_SECONDS or min(speed) <= 0:
        return None
    ttft, tokens, prefill = (float(f"{figure:.4g}") for figure in speed)
    return SpeedSeen(ttft, tokens, prefill, round(max(age, 0.0), 1))


def _newest_speed(live: LiveTarget, own: Speed, reports: Sequence[tuple[float, TargetReport]], now: float) -> Speed:
    seen = [(age + report.speed.age_seconds, report.speed) for age, report in reports if report.speed is not None]
    if not seen:
        return own
    age, newest = min(seen, key=lambda one: one[0])
    if now - live.pace.seen_at <= age:
        return own
    return Speed(newest.ttft_seconds, newest.tokens_per_second, newest.prefill_tokens_per_second)
