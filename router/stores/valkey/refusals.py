"""What a server refused while the connection to it stayed as it was: a full one answers, and takes nothing.

Only who asked learns of a refusal. Here it is also noted for the operator.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from router.stores.valkey.wire import Refused
from router.telemetry import events

_LASTS_SECONDS = 60.0
_OF_ONE_KEY = "WRONGTYPE"
"""Another program's value under a key of ours. The server itself can be used."""


class Refusing(NamedTuple):
    """A server that refuses commands now."""

    reason: str
    since: float
    """By the clock that was given."""


class Refusals:
    """Reports each kind of refusal once a minute, and knows whether there was any in the last one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.count = 0
        self._reported: dict[str, float] = {}
        self._now: Refusing | None = None
        self._until = 0.0

    def note(self, error: Refused) -> None:
        now, reason = self._clock(), error.reason
        self.count += 1
        if now >= self._reported.get(error.code, now):
            self._reported[error.code] = now + _LASTS_SECONDS
            events.store_refused(store="valkey", reason=reason, count=self.count)
        if error.code != _OF_ONE_KEY:
            before = self.look()
            self._now, self._until = Refusing(reason, now if before is None else before.since), now + _LASTS_SECONDS

    def look(self) -> Refusing | None:
        """The newest refusal, and since when there have been some; None a minute after the last one."""
        return self._now if self._clock() < self._until else None
