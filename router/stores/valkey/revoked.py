"""Keys of callers that were removed from a router's key file: they stop working at every router that shares the server.

The server keeps the list, so that a router that was away, or is started later with an older file, learns of it too. Among its
members is a name of the list itself: if that is a different one, the server lost the list, and gets it back from the routers.
"""

import asyncio
import secrets
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from router.contract.pulse import KeysChanged
from router.stores.valkey.link import Link
from router.stores.valkey.pulse import ValkeyPulse

_KEPT_SECONDS = 90 * 86_400
_MAX_KEYS = 10_000
_DIGEST_BYTES = 32
_NAME = b"list:"


class ValkeyRevokedKeys:
    """The list, as far as this router knows it, and what it has not been able to add to it yet."""

    def __init__(self, link: Link, pulse: ValkeyPulse) -> None:
        self._link, self._pulse, self._key = link, pulse, link.key("p", "revoked")
        self._known: frozenset[bytes] = frozenset()
        self._untold: dict[bytes, bool] = {}
        """Whether each was revoked or restored here, until the server has confirmed it."""
        self._names: frozenset[bytes] = frozenset()
        """What the list is called. Two routers that begin one in the same moment give it two names."""
        self._take: Callable[[frozenset[bytes]], None] | None = None
        pulse.hear(KeysChanged, lambda *_: self._read())
        link.on_up(self._catch_up)

    def tell(self, revoked: Collection[bytes], restored: Collection[bytes]) -> None:
        """Keys were removed from this router's file, and put into it; by the digests of their secrets."""
        self._untold |= {**dict.fromkeys(revoked, True), **dict.fromkeys(restored, False)}
        self._know((self._known | set(revoked)) - set(restored))
        self._catch_up()

    def hear(self, take: Callable[[frozenset[bytes]], None]) -> None:
        """Have a function called with all revoked keys, now and whenever they change. It must not raise."""
        self._take = take
        take(self._known)

    def _catch_up(self) -> None:
        """Tell the server what it has not confirmed yet, and read the list again."""
        if not self._link.is_up:
            return
        for digest, is_revoked in self._untold.items():
            asked = self._link.ask("SADD" if is_revoked else "SREM", self._key, digest.hex())
            asked.add_done_callback(partial(self._confirm, digest, is_revoked))
        if self._untold:
            self._link.tell_soon("EXPIRE", self._key, _KEPT_SECONDS)
            self._pulse.tell(KeysChanged())
        self._read()

    def _confirm(self, digest: bytes, is_revoked: bool, answer: "asyncio.Future[Any]") -> None:
        if not answer.cancelled() and answer.exception() is None and self._untold.get(digest) is is_revoked:
            del self._untold[digest]

    def _read(self) -> None:
        if self._link.is_up:
            self._link.ask("SRANDMEMBER", self._key, _MAX_KEYS).add_done_callback(self._learn)

    def _learn(self, answer: "asyncio.Future[Any]") -> None:
        if answer.cancelled() or answer.exception() is not None:
            return  # what was known still holds
        found: Collection[bytes] = answer.result()
        names = frozenset(text for text in found if text.startswith(_NAME))
        if not names & self._names and (self._known or not names):
            self._restore(names or frozenset({_NAME + secrets.token_hex(8).encode()}))
            return
        self._names = names
        self._know(frozenset(digest for text in found if (digest := _read_digest(text)) is not None))

    def _restore(self, names: frozenset[bytes]) -> None:
        """Add everything that is known here to a list that was begun since."""
        if self._link.is_up:
            added = self._link.ask("SADD", self._key, *names, *(digest.hex() for digest in self._known))
            added.add_done_callback(partial(self._begin, names))

    def _begin(self, names: frozenset[bytes], answer: "asyncio.Future[Any]") -> None:
        if not answer.cancelled() and answer.exception() is None:
            self._names = names
            self._link.tell_soon("EXPIRE", self._key, _KEPT_SECONDS)
            self._pulse.tell(KeysChanged())
            self._read()

    def _know(self, known: frozenset[bytes]) -> None:
        if known != self._known:
            self._known = known
            if self._take is not None:
                self._take(known)


def _read_digest(text: bytes) -> bytes | None:
    """What a member of the list is; None for what no router wrote."""
    try:
        digest = bytes.fromhex(text.decode("ascii"))
    except (UnicodeDecodeError, ValueError):
        return None
    return digest if len(digest) == _DIGEST_BYTES else None
