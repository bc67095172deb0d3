"""Reports that a file fails: at once, then once a minute while it lasts."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

OnFailure = Callable[[str, int], None]
"""Takes the kind of failure, and the rows lost so far."""

OUTAGE = "outage"
"""One topic for every way a file can be unusable."""
_QUIET_SECONDS = 60.0
_NEVER = float("-inf")


class Failing(NamedTuple):
    kind: str
    for_seconds: float
    is_outage: bool
    """Nothing can be written: rows wait."""
    cause: str
    """In words, for people."""


class Alarm:
    def __init__(self, say: OnFailure, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._said_at: dict[str, float] = {}
        self._told_lost = 0
        self._held_back = ""
        self._kind = self._cause = ""
        self._began_at = self._heard_at = _NEVER
        self._is_out = False
        self._lock = threading.Lock()

    def sound(self, kind: str, lost: int, topic: str | None = None, cause: str = "") -> None:
        """Report a failure, at most once a minute per topic."""
        with self._lock:
            now, topic, self._cause = self._clock(), topic or kind, cause or kind
            self._hear(kind, now, is_outage=topic == OUTAGE)
            if topic in self._said_at and now - self._said_at[topic] < _QUIET_SECONDS:
                self._held_back = kind
                return
            self._said_at[topic] = now
        self._tell(kind, lost)

    def remind(self, lost: int) -> None:
        """At most once a minute."""
        if lost > self._told_lost:
            self.sound(self._held_back or "QueueFull", lost)

    def clear(self) -> None:
        """Report the next outage at once."""
        if OUTAGE in self._said_at:
            with self._lock:
                self._said_at.pop(OUTAGE, None)
                self._is_out, self._heard_at = False, _NEVER

    @property
    def failing(self) -> Failing | None:
        """An outage until a write succeeds; lost rows until a minute passes without another."""
        with self._lock:
            now = self._clock()
            lasts = self._is_out or now - self._heard_at < _QUIET_SECONDS
            return Failing(self._kind, now - self._began_at, self._is_out, self._cause) if lasts else None

    def _hear(self, kind: str, now: float, *, is_outage: bool) -> None:
        if not self._is_out and now - self._heard_at >= _QUIET_SECONDS:
            self._began_at = now
        self._kind, self._heard_at, self._is_out = kind, now, self._is_out or is_outage

    def conclude(self, kind: str, lost: int) -> None:
        if lost > self._told_lost:
            self._tell(kind, lost)

    def _tell(self, kind: str, lost: int) -> None:
        self._told_lost, self._held_back = lost, ""
        with contextlib.suppress(Exception):  # a failing report must end neither the writer nor a request
            self._say(kind, lost)
