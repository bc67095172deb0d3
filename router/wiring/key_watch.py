"""Watching `keys.yaml`: a change is in use within seconds. A file that cannot be used changes nothing, and is reported once.

The file is looked at every two seconds with `stat`, which takes 2 µs. Editors, `tandem keys` and mounted secrets replace a file
by renaming another, so the watched thing is the path and not an open file.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from router.config.faults import ConfigError
from router.config.key_file import read_key_file
from router.contract.keys import KeyRing
from router.contract.notices import Notice, Trouble
from router.contract.request import JsonObject
from router.loop.tasks import spawn
from router.telemetry import events
from router.wiring.reloader import Reloader
from router.wiring.revoking import Revoking

if TYPE_CHECKING:
    from router.contract.messages import RevokedKeys

LOOK_SECONDS = 2.0
GONE_SECONDS = 600.0
"""How long keys work without their file. A deployment may take it away for a moment; one that stays away revokes them all."""

Mark = tuple[int, ...]
"""Changes when a file is written, replaced, or given other rights. Empty for no file."""
_UNKNOWN: Mark = (-1,)


class KeyWatch:
    """Looks at the key file of a reloader's config, and has it take what changed."""

    def __init__(
        self,
        reloader: Reloader,
        revoking: Revoking,
        clock: Callable[[], float] = time.monotonic,
        revoked: "RevokedKeys | None" = None,
    ) -> None:
        self._reloader, self._revoking, self._clock, self._revoked = reloader, revoking, clock, revoked
        self._turn = asyncio.Lock()
        self._filed = reloader.loaded.keys
        """The keys of the file as last read, those that another router revoked included."""
        self._path = reloader.loaded.keys_path
        self._seen = _UNKNOWN  # it may have been written since the config was loaded
        self._gone_since: float | None = None
        self._is_lost = False
        self.notice: Notice | None = None
        """Why the file cannot be used now, if so."""

    async def watch(self) -> None:
        """Look every two seconds, for as long as the router runs."""
        if self._revoked is not None:
            self._revoked.subscribe(self._hear_revoked)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Take the file if it has changed since the last look, and end what was begun with keys that no longer work."""
        async with self._turn:
            await self._look()
        await self._revoking.look()

    async def _look(self) -> None:
        path = self._reloader.loaded.keys_path or self._path  # `keys:` was removed from the config: that needs a restart
        if path is None:
            return
        mark = await asyncio.to_thread(mark_of, path)
        if path == self._path and mark == self._seen:
            await self._check_gone()
            return
        self._path, self._seen = path, mark
        if mark:
            self._gone_since, self._is_lost = None, False
            await self._take(path)
        else:
            self._gone_since = self._clock()
            minutes = f"{GONE_SECONDS / 60:g} minutes"
            self._keep((f"{path.name}: does not exist. If it is not back in {minutes}, no key works any more",))

    async def answer(self) -> JsonObject:
        """Look now. Returns what was ended in this process, by the id of its key."""
        await self.look()
        return self._revoking.describe()

    def _hear_revoked(self, digests: frozenset[bytes]) -> None:
        spawn(self.revoke(digests), name="revoke keys")

    async def revoke(self, digests: frozenset[bytes]) -> None:
        """Let keys no longer work that another router revoked, and let those work again that were put back there."""
        filed, self._reloader.revoked = self._filed, digests
        if filed is None or self._is_lost:
            return
        with suppress(ConfigError):  # it was checked when it was read
            await self._take_ring(lambda: filed)
        await self._revoking.look()

    async def _take(self, path: Path) -> None:
        try:
            filed = await asyncio.to_thread(_read, path, self._seen)
            removed, added = _compare(self._filed, filed)
            self._reloader.revoked -= added  # whoever puts a key back wants it to work
            await self._take_ring(lambda: filed)
        except _StillWritten:
            self._seen = _UNKNOWN  # the next look takes it
        except ConfigError as error:
            self._seen = _UNKNOWN  # a disk may recover without a change of the file
            self._keep(tuple(f"{path.name} {fault}" for fault in error.faults))
        else:
            self._filed, self.notice = filed, None
            if self._revoked is not None and (removed or added):
                self._revoked.report(removed, added)

    def _keep(self, faults: tuple[str, ...]) -> None:
        """Report once why the keys that were read last still count."""
        text = f"the key file cannot be used, and the keys read before still count: {'; '.join(faults)}"
        if self.notice is None or self.notice.text != text:
            self.notice = Notice(Trouble.STORE_AWAY, "keys", time.time(), text, "tandem check")
            events.keys_kept(faults=faults)

    async def _take_ring(self, read: Callable[[], KeyRing]) -> None:
        changed = await self._reloader.take_keys(read)
        ring = self._reloader.loaded.keys
        if changed and ring is not None:
            events.keys_reloaded(changed=changed, callers=len(ring.rights), keys=len(ring))

    async def _check_gone(self) -> None:
        """Once the file has been missing for too long, no key works but the router's own: whoever removed it meant that."""
        since = self._gone_since
        if since is None or self._is_lost or self._clock() - since < GONE_SECONDS:
            return
        self._is_lost = True
        text = "the key file is gone, and no key works any more"
        self.notice = Notice(Trouble.STORE_AWAY, "keys", time.time(), text, "tandem check")
        await self._reloader.take_keys(lambda: KeyRing((), {}))
        events.keys_lost(after_seconds=self._clock() - since)


def _compare(before: KeyRing | None, after: KeyRing) -> tuple[set[bytes], set[bytes]]:
    """The keys that were removed and added, by the digests of their secrets."""
    old, new = {key.digest for key in before or ()}, {key.digest for key in after}
    return old - new, new - old


class _StillWritten(Exception):
    """The file changed while it was read."""


def _read(path: Path, mark: Mark) -> KeyRing:
    """The keys of a file, if it is still the one that was looked at. Raises `ConfigError` and `_StillWritten`."""
    try:
        return read_key_file(path).ring
    finally:
        if mark_of(path) != mark:
            raise _StillWritten


def mark_of(path: Path) -> Mark:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode, found.st_uid
