"""Keys removed from one router's key file, which stop working at every router that shares the server.

The server keeps the list for routers that were away or start later with an older file. One member names the list itself: a
different name means that the server lost the list, and routers write it back.
"""

import asyncio
import secrets
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from router.contract.messages import KeysChanged
from router.stores.outbox import Outbox
from router.stores.valkey.link import Link
from router.stores.valkey.messages import ValkeyMessages

_KEPT_SECONDS = 90 * 86_400
_MAX_KEYS = 10_000
_DIGEST_BYTES = 32
_NAME = b"list:"


class ValkeyRevokedKeys:
    def __init__(self, link: Link, messages: ValkeyMessages) -> None:
        self._link, self._messages, self._key = link, messages, link.key("p", "revoked")
        self._known: frozenset[bytes] = frozenset()
        self._unsent: Outbox[bytes, bool] = Outbox(self._write)
        """True: revoked here; False: restored. Kept until confirmed."""
        self._names: frozenset[bytes] = frozenset()
        """The list's names. Two routers that create it at once give it two."""
        self._subscriber: Callable[[frozenset[bytes]], None] | None = None
        messages.subscribe(KeysChanged, lambda *_: self._read())
        link.on_up(self._catch_up)

    def report(self, revoked: Collection[bytes], restored: Collection[bytes]) -> None:
        for digest, is_revoked in {**dict.fromkeys(revoked, True), **dict.fromkeys(restored, False)}.items():
            self._unsent.add(digest, is_revoked)
        self._know(self._known)
        self._catch_up()

    def subscribe(self, take: Callable[[frozenset[bytes]], None]) -> None:
        self._subscriber = take
        take(self._known)

    def _catch_up(self) -> None:
        self._unsent.retry()
        self._read()

    async def _write(self, digest: bytes, is_revoked: bool) -> None:
        await self._link.ask("SADD" if is_revoked else "SREM", self._key, digest.hex())
        if len(self._unsent) == 1:
            self._announce()

    def _announce(self) -> None:
        self._link.send_soon("EXPIRE", self._key, _KEPT_SECONDS)
        self._messages.publish(KeysChanged())
        self._read()

    def _read(self) -> None:
        if self._link.is_up:
            self._link.ask("SRANDMEMBER", self._key, _MAX_KEYS).add_done_callback(self._learn)

    def _learn(self, answer: "asyncio.Future[Any]") -> None:
        if answer.cancelled() or answer.exception() is not None:
            return  # keep the known list
        found: Collection[bytes] = answer.result()
        names = frozenset(text for text in found if text.startswith(_NAME))
        if not names & self._names and (self._known or not names):
            self._restore(names or frozenset({_NAME + secrets.token_hex(8).encode()}))
            return
        self._names = names
        self._know(frozenset(digest for text in found if (digest := _read_digest(text)) is not None))

    def _restore(self, names: frozenset[bytes]) -> None:
        if self._link.is_up:
            added = self._link.ask("SADD", self._key, *names, *(digest.hex() for digest in self._known))
            added.add_done_callback(partial(self._begin, names))

    def _begin(self, names: frozenset[bytes], answer: "asyncio.Future[Any]") -> None:
        if not answer.cancelled() and answer.exception() is None:
            self._names = names
            self._announce()

    def _know(self, listed: frozenset[bytes]) -> None:
        unsent = self._unsent.waiting
        known = frozenset({*listed, *unsent} - {digest for digest, is_revoked in unsent.items() if not is_revoked})
        if known != self._known:
            self._known = known
            if self._subscriber is not None:
                self._subscriber(known)


def _read_digest(text: bytes) -> bytes | None:
    """None for a member that no router wrote."""
    try:
        digest = bytes.fromhex(text.decode("ascii"))
    except (UnicodeDecodeError, ValueError):
        return None
    return digest if len(digest) == _DIGEST_BYTES else None
