"""Waiting for a job to change: writers set each watch's event."""

import asyncio
import contextlib
from collections import defaultdict

STOP = "stop"


class Watches:
    """All watches of jobs in this process. Used by one thread."""

    def __init__(self) -> None:
        self._events: defaultdict[str | None, set[asyncio.Event]] = defaultdict(set)

    def watch(self, job_id: str | None, *, for_owner: bool = False) -> "Watch":
        return Watch(self, stop_of(job_id) if for_owner and job_id is not None else job_id)

    def note_stop(self, job_id: str) -> None:
        self.note(job_id)
        self.note(stop_of(job_id))

    def note(self, job_id: str | None) -> None:
        """Report a change of a job; None: one may be claimable."""
        for event in self._events.get(job_id, ()):
            event.set()

    def note_all(self) -> None:
        """Wake all: notes may have been missed."""
        for events in self._events.values():
            for event in events:
                event.set()

    def add(self, job_id: str | None, event: asyncio.Event) -> None:
        self._events[job_id].add(event)

    def drop(self, job_id: str | None, event: asyncio.Event) -> None:
        self._events[job_id].discard(event)
        if not self._events[job_id]:
            del self._events[job_id]


def stop_of(job_id: str) -> str:
    """The key an owner watches for cancellation. No id has a space."""
    return f"{job_id} {STOP}"


class Watch:
    def __init__(self, watches: Watches, job_id: str | None) -> None:
        self._watches, self._job_id, self._event = watches, job_id, asyncio.Event()
        watches.add(job_id, self._event)

    async def wait(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        has_changed = self._event.is_set()
        self._event.clear()
        return has_changed

    def close(self) -> None:
        self._watches.drop(self._job_id, self._event)
