"""Who sends a request, and in which session."""

from functools import lru_cache
from hashlib import blake2b

from msgspec import Struct


class Caller(Struct, frozen=True):
    """One who may use the router. What is kept of a request (sessions, responses, decisions) is kept for its caller alone."""

    name: str


LOCAL = Caller("local")
"""Everyone who reaches a router that listens on loopback and asks for no key; and commands of the router's own user."""

ANYONE = Caller("anyone")
"""Who asks for a page that needs no key, where others do."""


SCRAPER = Caller("metrics.key of the config")
"""Who reads `/metrics` with the key that opens nothing else. No caller of a key file can have this name."""


class SessionKey(Struct, frozen=True, cache_hash=True):
    """One session of one caller: what is kept or shared by session goes by this, so that no caller meets another's."""

    caller: Caller
    session: str
    number: int = 0
    """Which one, of several guessed sessions that began with the same words."""

    def __str__(self) -> str:
        text = f"{self.caller.name}\0{self.session}"
        return f"{text}\0{self.number}" if self.number else text


@lru_cache(maxsize=1024)
def record_name(key: SessionKey) -> str:
    """The name of a session's record in a store. It says nothing of the session; what it begins with belongs to the caller."""
    return record_prefix(key.caller) + old_record_name(key)


def record_prefix(caller: Caller) -> str:
    """How the names of all records of a caller begin, so that they can be deleted. Those of `LOCAL` have no dot in them."""
    return "" if caller == LOCAL else f"{blake2b(caller.name.encode('utf-8', 'replace'), digest_size=8).hexdigest()}."


def old_record_name(key: SessionKey) -> str:
    """The name without the caller's prefix, as Tandem 0.3 wrote it for everyone."""
    return blake2b(str(key).encode("utf-8", "replace"), digest_size=16).hexdigest()
