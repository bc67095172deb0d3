"""Watching `.env` and the certificate: new values are in use within seconds. Unusable ones change nothing, and are reported."""

import asyncio
from pathlib import Path

from router.wiring.key_watch import LOOK_SECONDS, Mark, mark_of
from router.wiring.reloader import Reloader

Marks = dict[Path, Mark]


class SecretWatch:
    """Looks at the files of a reloader's config, and has it take what changed.

    A certificate and its key are two files, written one after the other: a change counts once a second look finds no other.
    """

    def __init__(self, reloader: Reloader) -> None:
        self._reloader = reloader
        self._seen = self._taken = self._mark()

    async def watch(self) -> None:
        """Look every two seconds, for as long as the router runs."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Take what differs since it was last taken, if it is as the last look found it."""
        marks = await asyncio.to_thread(self._mark)
        is_settled, self._seen = marks == self._seen, marks
        if is_settled and marks != self._taken:
            self._taken = marks
            await self._reloader.refresh()

    def _mark(self) -> Marks:
        return {path: mark_of(path) for path in self._reloader.loaded.secret_files}
