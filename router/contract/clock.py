"""The clock of this process: the time of day with its leaps, and running time with its pauses.

The time of day may be wrong for a moment: it is what rows and logs are dated with, and `trusted` is what things expire by. A
process can be paused while its monotonic clock runs: by a signal, with its container, by a debugger. Nobody was silent in that
time, since nobody was listened to, so `ran` leaves it out.
"""

import time
from collections import deque
from collections.abc import Callable
from math import inf
from typing import NamedTuple

PAUSE_SECONDS = 1.0
"""A loop that did not run for this long was paused, whatever the cause."""
LEAP_SECONDS = 60.0
"""How far the time of day may drift from running time between two looks."""
_BELIEVED_SECONDS = 86_400.0
"""A leap that lasts this long is believed."""
_MOST_PAUSES = 64
_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def read_uptime() -> float:
    """Seconds that count the machine's sleep, which those of `time.monotonic` do not."""
    return time.clock_gettime(_UPTIME)


class Pause(NamedTuple):
    began: float
    ended: float


class Clock:
    """The watch over the event loop says when it runs next (`expect`). Without that, no pause is ever noticed."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        uptime: Callable[[], float] = read_uptime,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall, self._uptime, self._monotonic = wall, uptime, monotonic
        self._offset = self._seen_offset = wall() - uptime()
        self._leapt_at: float | None = None
        """When the time of day went ahead or back of what is believed."""
        self._moved_at = -inf
        self._due = inf
        self._pauses: deque[Pause] = deque(maxlen=_MOST_PAUSES)
        self.on_pause: list[Callable[[float], None]] = []
        """Called with the seconds of each pause, when it is noticed."""

    def trusted(self) -> float:
        """The time of day for what expires and is deleted: never ahead by a leap, unless that has lasted for a day.

        A clock that is set back is followed at once, which deletes nothing.
        """
        wall, uptime = self._wall(), self._uptime()
        steady = self._offset + uptime
        if abs(wall - uptime - self._seen_offset) > LEAP_SECONDS:
            self._moved_at = uptime
        self._seen_offset = wall - uptime
        if abs(wall - steady) <= LEAP_SECONDS:
            self._offset, self._leapt_at = wall - uptime, None
        elif (leapt_at := self._leapt_at) is None:
            self._leapt_at = uptime
        elif uptime - leapt_at >= _BELIEVED_SECONDS:
            self._offset, self._leapt_at = wall - uptime, None
            return wall
        return min(wall, steady)

    def has_just_leapt(self, within_seconds: float) -> bool:
        """Whether the time of day leapt, in any direction, in the last seconds."""
        self.trusted()
        return self._uptime() - self._moved_at < within_seconds

    @property
    def leap_seconds(self) -> float:
        """How far the time of day has leapt, as of the last look; 0 where it is believed."""
        return self._wall() - self._uptime() - self._offset if self._leapt_at is not None else 0.0

    def expect(self, due: float = inf) -> None:
        """Expect the loop to run at this moment of the monotonic clock; without one, stop expecting it."""
        self._due = due

    def look(self) -> None:
        """Notice a pause that ends now, before anybody is judged by it: its timers may run before the watch."""
        began, now = self._due, self._monotonic()
        if now - began < PAUSE_SECONDS:
            return
        self._due = now
        self._pauses.append(Pause(began, now))
        for tell in self.on_pause:
            tell(now - began)

    def ran(self, since: float, now: float) -> float:
        """How long this process ran between two moments of the monotonic clock."""
        self.look()
        return now - since - sum(max(0.0, min(now, ended) - max(since, began)) for began, ended in self._pauses)

    def has_paused(self, since: float, now: float) -> bool:
        self.look()
        return any(ended > since and began < now for began, ended in self._pauses)


CLOCK = Clock()
"""Leaps and pauses are of the whole process."""
