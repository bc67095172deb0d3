"""Waiting for a job to change: each watch has an event, which whoever writes sets."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable

STOP = "stop"
_ANY = "*"
"""A job may be there to be claimed. No id has this form."""


class Watches:
    """Everyone who waits for jobs, in this process and in workers that share its file of jobs. Used by one thread."""

    def __init__(self) -> None:
        self.publish: Callable[[str], None] = lambda message: None
        """Sends what is noted to the other workers of this router, if there are any."""
        self._events: defaultdict[str | None, set[asyncio.Event]] = defaultdict(set)

    def watch(self, job_id: str | None, *, for_owner: bool = False) -> "Watch":
        return Watch(self, stop_of(job_id) if for_owner and job_id is not None else job_id)

    def note_stop(self, job_id: str) -> None:
        self.note(job_id)
        self.note(stop_of(job_id))

    def note(self, job_id: str | None) -> None:
        """Something happened to a job; None: one may be there to be claimed."""
        self._wake(job_id)
        self.publish(_ANY if job_id is None else job_id)

    def take(self, message: bytes) -> None:
        """Wake those who wait for what a worker has noted, this one included: the second time they find nothing new."""
        text = message.decode("utf-8", "replace")
        self._wake(None if text == _ANY else text)

    def _wake(self, job_id: str | None) -> None:
        for event in self._events.get(job_id, ()):
            event.set()

    def note_all(self) -> None:
        """Anything may have happened."""
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
    """What the owner of a job watches. No id has a space."""
    return f"{job_id} {STOP}"


class Watch:
    """One who waits for a job, or for any."""

    def __init__(self, watches: Watches, job_id: str | None) -> None:
        self._watches, self._job_id, self._event = watches, job_id, asyncio.Event()
        watches.add(job_id, self._event)

    async def wait(self, seconds: float) -> bool:
        """Wait for a change, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        has_changed = self._event.is_set()
        self._event.clear()
        return has_changed

    def close(self) -> None:
        self._watches.drop(self._job_id, self._event)
