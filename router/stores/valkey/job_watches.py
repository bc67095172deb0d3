"""Telling other workers that a job in their common file has changed, so that nobody has to look again and again."""

from router.stores.valkey.link import Link
from router.stores.watches import Watches

_CHANNEL = ("p", "jobs")
_ANY = b"*"
"""A job may be there to be claimed. No id has this form."""


class SharedWatches(Watches):
    """Watches that also notice what other workers note. While the server is away, each notices its own alone."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link, self._channel = link, link.key(*_CHANNEL)
        link.subscribe(self._channel, self._hear)

    def note(self, job_id: str | None) -> None:
        super().note(job_id)
        self._link.tell_soon("PUBLISH", self._channel, _ANY if job_id is None else job_id)

    def _hear(self, message: bytes) -> None:
        """Pass on what was noted, by this worker too: who is woken twice finds nothing new the second time."""
        super().note(None if message == _ANY else message.decode("utf-8", "replace"))
