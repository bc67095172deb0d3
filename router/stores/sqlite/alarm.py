"""Saying that a file fails, without saying it with every row: at once, then once a minute while it goes on."""

import contextlib
import threading
import time
from collections.abc import Callable

OnFailure = Callable[[str, int], None]
"""Told what failed, and how many rows are lost by now."""

OUTAGE = "outage"
"""All the ways in which a file cannot be used are one thing to the person who reads of it."""
_QUIET_SECONDS = 60.0


class Alarm:
    """What one file's writer has said. Used by the writer's thread and by the loop's."""

    def __init__(self, say: OnFailure, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._said_at: dict[str, float] = {}
        self._told_lost = 0
        self._held_back = ""
        self._lock = threading.Lock()

    def sound(self, kind: str, lost: int, topic: str | None = None) -> None:
        """Say that something failed, unless the same was said within the last minute."""
        with self._lock:
            now, topic = self._clock(), topic or kind
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

    def conclude(self, kind: str, lost: int) -> None:
        """The last word: what was lost and not said."""
        if lost > self._told_lost:
            self._tell(kind, lost)

    def _tell(self, kind: str, lost: int) -> None:
        self._told_lost, self._held_back = lost, ""
        with contextlib.suppress(Exception):  # whoever cannot say it must neither end the writer nor fail a request
            self._say(kind, lost)
