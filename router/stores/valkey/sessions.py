"""Sessions shared by several routers: one value each, beginning with its version."""

import asyncio
from collections.abc import Sequence

from router.contract.stores import StoreUnusable, Versioned
from router.stores.valkey.link import Link, Script

KIND = "sessions"
_KEPT_SECONDS = 7 * 86_400
_MAX_DIGITS = 20
_NOTHING = Versioned()
_SWAP = """
local version = string.match(redis.call('GETRANGE', KEYS[1], 0, 20), '^0*(%d+) ')
if version and version ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
"""
"""Missing records and foreign values are replaced whatever version is expected.

Versions are compared as text without leading zeros, as `_read` returns them, since Lua's numbers are inexact.
"""


class ValkeySessions:
    """Read for every request, written at the start of every answer. Raises `StoreUnusable` while the server is away."""

    is_shared = True

    def __init__(self, link: Link) -> None:
        self._link, self._script, self._prefix = link, link.register(Script(_SWAP)), link.key("s", "")

    async def load(self, key: str) -> Versioned:
        (found,) = await self.load_all((key,))
        return found

    async def load_all(self, keys: Sequence[str]) -> Sequence[Versioned]:
        prefix = self._prefix
        try:
            found = await self._link.ask("MGET", *[prefix + key for key in keys])
        except StoreUnusable:
            self._link.blind[KIND] += 1
            raise
        return [_NOTHING if value is None else _read(value) for value in found]  # of eight slots, most are usually empty

    def swap(self, key: str, version: int, at: float, state: bytes) -> "asyncio.Future[bool]":
        """Replace a record for a week, as long as a session is remembered."""
        return self._link.run(self._script, (self._prefix + key,), version, b"%d %b" % (version + 1, state), _KEPT_SECONDS)

    async def close(self) -> None:
        """Nothing to write: the opener closes the link."""


def _read(value: bytes) -> Versioned:
    end = value.find(b" ", 0, _MAX_DIGITS + 1)
    digits = value[: max(end, 0)]
    return Versioned(value[end + 1 :], int(digits)) if digits.isdigit() else _NOTHING
