"""Series of the targets for plots, from the sums of whole hours and the rows of others."""

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from router.contract.past import TargetSeries
from router.stores.sqlite.hours import ERRORS, HOUR, LIVE_BY_HOUR, Calls, Whole, divide, read_live_calls, read_packed_calls

_SERIES_VALUES = 24_000
"""Calls a plot takes percentiles from, the newest of each step."""
_LEAST_VALUES = 20
_COUNTS = "SELECT hour, target, outcome, tier, sum(calls), max(newest_at) FROM {sums} AND target IS NOT NULL GROUP BY 1, 2, 3"
"""With max(), SQLite takes the tier from the newest row."""


class _Newest(NamedTuple):
    """Numbers of calls, in any order."""

    ats: list[float]
    ttfts_ms: list[float]
    speeds: list[float]

    def add(self, calls: Calls) -> None:
        self.ats.extend(map(abs, calls.ats))
        self.ttfts_ms.extend(calls.ttfts_ms)
        self.speeds.extend(calls.speeds)


class _Steps:
    """The calls to one target: how many of each step, and the newest of each."""

    def __init__(self, steps: int) -> None:
        self.calls, self.errors = [0] * steps, [0] * steps
        self.newest = [_Newest([], [], []) for _ in range(steps)]
        self.tier, self.newest_at = None, 0.0


class _Series:
    def __init__(self, database: sqlite3.Connection, whole: Whole, begins_at: float, step_seconds: float, steps: int) -> None:
        self._database, self._whole = database, whole
        self._begins_at, self._step_seconds, self._steps = begins_at, step_seconds, steps
        self.targets: dict[str, _Steps] = {}
        self._is_of_hours = step_seconds % HOUR == 0 and begins_at % HOUR == 0

    def read(self, caller: str | None) -> None:
        for sums in (f"hours WHERE {self._whole.where('hours')}", f"({LIVE_BY_HOUR}) WHERE 1"):
            rows = self._database.execute(_COUNTS.format(sums=sums), {"caller": caller})
            for hour, target, outcome, tier, calls, newest_at in rows:
                if (of := self.targets.get(target)) is None:
                    of = self.targets[target] = _Steps(self._steps)
                if newest_at >= of.newest_at:
                    of.tier, of.newest_at = tier, newest_at
                if self._is_of_hours:
                    step = self._step_of(hour * HOUR)
                    of.calls[step] += calls
                    of.errors[step] += calls if outcome in ERRORS else 0
        live = read_live_calls(self._database, caller)
        if self._is_of_hours:
            values = self.values
            for step in range(self._steps):
                self._read_newest(step, live, values, caller)
            return
        packed = read_packed_calls(self._database, self._whole.where("hour_calls"), caller)
        for target, calls in [*((one, own) for _, one, own in packed), *(pair for pairs in live.values() for pair in pairs)]:
            of = self.targets[target]
            for at, ttft, speed in zip(*calls, strict=True):
                step = self._step_of(arrived := abs(at))
                of.calls[step] += 1
                of.errors[step] += at < 0
                ats, ttfts, speeds = of.newest[step]
                ats.append(arrived)
                ttfts.append(ttft)
                speeds.append(speed)

    @property
    def values(self) -> int:
        return max(_LEAST_VALUES, _SERIES_VALUES // (self._steps * max(1, len(self.targets))))

    def _read_newest(self, step: int, live: Mapping[int, list[tuple[str, Calls]]], values: int, caller: str | None) -> None:
        """From the last hour of a step back, until every target has enough: all calls of a later hour are newer."""
        begins = int(self._begins_at + step * self._step_seconds) // HOUR
        ends = begins + int(self._step_seconds) // HOUR
        lacking = {target for target, of in self.targets.items() if of.calls[step]}
        packed = iter(read_packed_calls(self._database, self._whole.where("hour_calls", begins, ends), caller, values))
        following = next(packed, None)
        for hour in range(ends - 1, begins - 1, -1):
            if not lacking:
                break
            found = [*live.get(hour, ())]
            while following is not None and following[0] == hour:
                found.append(following[1:])
                following = next(packed, None)
            for target, calls in found:
                if target in lacking:
                    self.targets[target].newest[step].add(calls)
            lacking -= {target for target in lacking if len(self.targets[target].newest[step].ats) >= values}

    def _step_of(self, at: float) -> int:
        return min(int((at - self._begins_at) // self._step_seconds), self._steps - 1)


def read_series(
    database: sqlite3.Connection, ends_at: float, step_seconds: float, steps: int, caller: str | None
) -> Mapping[str, TargetSeries]:
    begins_at = ends_at - step_seconds * steps
    series = _Series(database, divide(database, begins_at, ends_at), begins_at, step_seconds, steps)
    series.read(caller)
    return {target: _show(of, series.values) for target, of in sorted(series.targets.items())}


def _show(of: _Steps, values: int) -> TargetSeries:
    waits, speeds = [], []
    for calls in of.newest:
        since = sorted(calls.ats, reverse=True)[values - 1] if len(calls.ats) > values else 0.0
        waits.append(_pick(calls.ats, calls.ttfts_ms, since))
        speeds.append(_pick(calls.ats, calls.speeds, since))
    halves, most = [_percentile(one, 50) for one in waits], [_percentile(one, 95) for one in waits]
    return TargetSeries(of.tier, of.calls, of.errors, halves, most, [_percentile(one, 50) for one in speeds])


def _pick(ats: list[float], numbers: list[float], since: float) -> list[float]:
    return sorted(number for at, number in zip(ats, numbers, strict=True) if at >= since and number == number)


def _percentile(values: list[float], percent: int) -> float | None:
    """Nearest rank: at least `percent` per cent are at or below it."""
    return values[-(-len(values) * percent // 100) - 1] if values else None
