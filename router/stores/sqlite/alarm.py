"""Saying that a file fails, without saying it with every row: at once, then once a minute while it goes on."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

OnFailure = Callable[[str, int], None]
"""Told what failed, and how many rows are lost by now."""

OUTAGE = "outage"
"""All the ways in which a file cannot be used are one thing to the person who reads of it."""
_QUIET_SECONDS = 60.0
_NEVER = float("-inf")


class Failing(NamedTuple):
    kind: str
    """What fails, such as `DiskFull`."""
    for_seconds: float
    is_outage: bool
    """Whether nothing can be written: rows wait until it is over."""


class Alarm:
    """What one file's writer has said. Used by the writer's thread and by the loop's."""

    def __init__(self, say: OnFailure, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._said_at: dict[str, float] = {}
        self._told_lost = 0
        self._held_back = ""
        self._kind = ""
        self._began_at = self._heard_at = _NEVER
        """When the failures began that are the last ones known, and when the last of them was."""
        self._is_out = False
        """Whether the last one was an outage: that lasts until something is written."""
        self._lock = threading.Lock()

    def sound(self, kind: str, lost: int, topic: str | None = None) -> None:
        """Say that something failed, unless the same was said within the last minute."""
        with self._lock:
            now, topic = self._clock(), topic or kind
            self._hear(kind, now, is_outage=topic == OUTAGE)
            if topic in self._said_at and now - self._said_at[topic] < _QUIET_SECONDS:
                self._held_back = kind
                return
            self._said_at[topic] = now
        self._tell(kind, lost)

    def remind(self, lost: int) -> None:
        """Say what was lost since the last word, once a minute has passed since it. Rows without room are lost in silence."""
        if lost > self._told_lost:
            self.sound(self._held_back or "QueueFull", lost)

    def clear(self) -> None:
        """The file works again: the next outage is said at once."""
        if OUTAGE in self._said_at:
            with self._lock:
                self._said_at.pop(OUTAGE, None)
                self._is_out, self._heard_at = False, _NEVER

    @property
    def failing(self) -> Failing | None:
        """What fails now: an outage until the file works again, and lost rows until none was lost for a minute."""
        with self._lock:
            now = self._clock()
            lasts = self._is_out or now - self._heard_at < _QUIET_SECONDS
            return Failing(self._kind, now - self._began_at, self._is_out) if lasts else None

    def _hear(self, kind: str, now: float, *, is_outage: bool) -> None:
        if not self._is_out and now - self._heard_at >= _QUIET_SECONDS:
            self._began_at = now
        self._kind, self._heard_at, self._is_out = kind, now, self._is_out or is_outage

    def conclude(self, kind: str, lost: int) -> None:
        """The last word: what was lost and not said."""
        if lost > self._told_lost:
            self._tell(kind, lost)

    def _tell(self, kind: str, lost: int) -> None:
        self._told_lost, self._held_back = lost, ""
        with contextlib.suppress(Exception):  # whoever cannot say it must neither end the writer nor fail a request
            self._say(kind, lost)
