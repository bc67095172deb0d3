"""Callers, and the keys of their sessions."""

from functools import lru_cache
from hashlib import blake2b

from msgspec import Struct


class Caller(Struct, frozen=True):
    """A user of the router. Its sessions, responses and decisions are visible to no other caller."""

    name: str


LOCAL = Caller("local")
"""Callers of a loopback router without keys, and commands of the router's own user."""

ANYONE = Caller("anyone")
"""Callers of pages that need no key."""


SCRAPER = Caller("metrics.key of the config")
"""The caller with the metrics key. No key file can have this name."""


class SessionKey(Struct, frozen=True, cache_hash=True):
    """Key of everything kept or shared by session, so that callers never meet."""

    caller: Caller
    session: str
    number: int = 0
    """Tells guessed sessions apart that began with identical words."""

    def __str__(self) -> str:
        text = f"{self.caller.name}\0{self.session}"
        return f"{text}\0{self.number}" if self.number else text


@lru_cache(maxsize=1024)
def record_name(key: SessionKey) -> str:
    return record_prefix(key.caller) + blake2b(str(key).encode("utf-8", "replace"), digest_size=16).hexdigest()


def record_prefix(caller: Caller) -> str:
    """Prefix of a caller's record names, by which they are deleted. Names of `LOCAL` have none, and no dot."""
    return "" if caller == LOCAL else f"{blake2b(caller.name.encode('utf-8', 'replace'), digest_size=8).hexdigest()}."
