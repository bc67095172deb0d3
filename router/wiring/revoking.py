"""Ends what callers began with keys that no longer work: jobs, WebSockets and live feeds.

Nothing more begins with such a key once the plan is swapped. What is left is looked for when the keys have changed and when one
has expired. If jobs cannot be reached then, the next look tries again.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from router.contract.keys import KeyRing
from router.contract.request import JsonObject
from router.contract.stores import StoreUnusable
from router.house import House
from router.jobs.jobs import Jobs
from router.telemetry import events

_MAX_KEYS = 1_000


class Revoking:
    def __init__(self, house: House, jobs: Jobs, clock: Callable[[], float] = time.time) -> None:
        self._house, self._jobs, self._clock = house, jobs, clock
        self._turn = asyncio.Lock()
        self._settled: KeyRing | None = None
        self._next_expiry = math.inf
        self._ended: dict[str, Counter[str]] = {}
        """What was ended in this process, by the id of its key, for whoever revoked it and asks. Newest last."""

    async def look(self) -> None:
        """End what was begun with keys that no longer work, if that may have changed since the last look."""
        async with self._turn:
            keys, now = self._house.plan.keys, self._clock()
            if keys is None or (keys is self._settled and now < self._next_expiry):
                return
            self._note([(held.key, held.kind) for held in self._house.state.lasting.end_revoked(keys, now)])
            with suppress(StoreUnusable):
                self._note(await self._jobs.end_revoked())
                self._settled, expiries = keys, [key.expires_at for key in keys if key.expires_at is not None]
                self._next_expiry = min((at for at in expiries if at > now), default=math.inf)

    def describe(self) -> JsonObject:
        """What was ended, by the id of its key."""
        return {key: {**counted} for key, counted in self._ended.items()}

    def _note(self, ended: Sequence[tuple[str | None, str]]) -> None:
        for key in {key or "" for key, _ in ended}:
            counted = Counter(kind for other, kind in ended if (other or "") == key)
            events.key_revoked(key=key or None, **counted)
            self._ended[key] = self._ended.pop(key, Counter()) + counted
        while len(self._ended) > _MAX_KEYS:
            del self._ended[next(iter(self._ended))]
