"""`Idempotency-Key`s in use and their answers, in a Valkey or Redis server.

A slot is one value: its owner's mark, a digest of the request, and the answer once there is one. The owner renews it while its
request runs, so a dead router's slot is free within a minute. A server restarted without its data gets the slots back from the
routers as they reconnect.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from router.contract.stores import HeldKey, KeptRepeat, StoreUnusable
from router.stores.outbox import Outbox
from router.stores.valkey.link import Link, Script, ignore
from router.stores.valkey.messages import Channel
from router.stores.valkey.wire import Away
from router.telemetry import events

_KEPT_MS = 600_000
_LEASE_MS = 60_000
_RENEW_SECONDS = 15.0
_LOOK_SECONDS = 5.0
"""How often a waiting request checks by itself, as an owner may die silently."""
_VERSION = b"1"
_TOKEN_BYTES, _ASKED_BYTES = 8, 32
_MARK_BYTES = len(_VERSION) + _TOKEN_BYTES + _ASKED_BYTES
_KIND = "repeats"

_CLAIM = Script("""
    if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
    return redis.call('GET', KEYS[1])
""")
_FINISH = Script("""
    local mark = redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
    if mark ~= ARGV[1] and mark ~= '' then return 0 end
    if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3]) end
    redis.call('PUBLISH', KEYS[2], ARGV[4])
    return 1
""")
_RENEW = Script("""
    local there = redis.call('GET', KEYS[1])
    if not there then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
    if there == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
    return 1
""")


class ValkeyRepeats:
    """A `RepeatStore` for ten minutes. Only a slot's owner changes it: late writes of others have no effect."""

    def __init__(self, link: Link) -> None:
        self._link = link
        for script in (_CLAIM, _FINISH, _RENEW):
            link.register(script)
        self._over = Channel(link, "i", "over", take=self._wake, on_missed=self._catch_up)
        link.on_back(lambda: None, self._restore)
        self._held: dict[bytes, bytes] = {}
        """Marks of running requests' slots."""
        self._unsent: Outbox[bytes, tuple[bytes, bytes]] = Outbox(self._finish, lambda unsent: len(unsent[1]))
        """Finished slots the server has not confirmed: mark and answer."""
        self._waiting: dict[bytes, asyncio.Event] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._list_answers: Callable[[], Iterable[KeptRepeat]] = tuple

    def restore_from(self, list_answers: Callable[[], Iterable[KeptRepeat]]) -> None:
        self._list_answers = list_answers

    async def claim(self, slot: bytes, asked: bytes) -> HeldKey | None:
        """One round trip. If the request is cancelled meanwhile, the slot is freed again."""
        mark = _make_mark(asked)
        try:
            found: bytes | None = await self._link.run(_CLAIM, [self._key(slot)], mark, _LEASE_MS)
        except BaseException as error:
            if isinstance(error, StoreUnusable):
                self._link.blind[_KIND] += 1
            self._send(slot, mark, b"")
            raise
        if found is not None:
            return _read(found)
        self._held[slot] = mark
        self._renew_later()
        return None

    def finish(self, slot: bytes, answer: bytes | None) -> None:
        mark = self._held.pop(slot, None)
        if mark is not None:
            self._send(slot, mark, answer or b"")

    async def wait(self, slot: bytes, seconds: float) -> None:
        """A slot may change before the wait, so it is checked once more."""
        event = self._waiting.setdefault(slot, asyncio.Event())
        try:
            with suppress(TimeoutError, StoreUnusable):
                async with asyncio.timeout(min(seconds, _LOOK_SECONDS)):
                    if await self._link.ask("STRLEN", self._key(slot)) == _MARK_BYTES:
                        await event.wait()
        finally:
            if self._waiting.get(slot) is event:
                del self._waiting[slot]

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _key(self, slot: bytes) -> str:
        return self._link.key("i", slot.hex())

    def _finish(self, slot: bytes, ended: tuple[bytes, bytes]) -> "asyncio.Future[Any]":
        return self._link.run(_FINISH, [self._key(slot), self._over.name], *ended, _KEPT_MS, slot)

    def _send(self, slot: bytes, mark: bytes, answer: bytes) -> None:
        try:
            sent = self._finish(slot, (mark, answer))
        except Away:
            self._unsent.add(slot, (mark, answer))
        else:
            sent.add_done_callback(partial(self._take_sent, slot, mark, answer))

    def _take_sent(self, slot: bytes, mark: bytes, answer: bytes, sent: "asyncio.Future[Any]") -> None:
        if not sent.cancelled() and isinstance(sent.exception(), Away):
            self._unsent.add(slot, (mark, answer))

    def _wake(self, slot: bytes) -> None:
        if (event := self._waiting.pop(slot, None)) is not None:
            event.set()

    def _catch_up(self) -> None:
        """Send unsent slots, and check those whose end may have been missed."""
        self._unsent.retry()
        for slot in list(self._waiting):
            self._wake(slot)
        self._renew()

    async def _restore(self) -> None:
        """One at a time: the connection is shared."""
        for slot, (asked, answer), seconds in self._list_answers():
            if not await self._link.ask("EXISTS", self._key(slot)):
                value = _make_mark(asked) + (answer or b"")
                await self._link.run(_CLAIM, [self._key(slot)], value, max(int(seconds * 1_000), 1))

    def _renew_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_RENEW_SECONDS, self._renew)

    def _renew(self) -> None:
        self.close()
        self._timer = None
        with suppress(Away):
            for slot, mark in self._held.items():  # sent at once, so that a request's end cannot overtake it
                self._link.run(_RENEW, [self._key(slot)], mark, _LEASE_MS).add_done_callback(ignore)
        if self._held:
            self._renew_later()


def _make_mark(asked: bytes) -> bytes:
    return _VERSION + secrets.token_bytes(_TOKEN_BYTES) + asked


def _read(value: bytes) -> HeldKey:
    if not value.startswith(_VERSION) or len(value) < _MARK_BYTES:
        events.value_unreadable(store="valkey", kind=_KIND)
        raise StoreUnusable("the slot holds something else")
    return HeldKey(value[_MARK_BYTES - _ASKED_BYTES : _MARK_BYTES], value[_MARK_BYTES:] or None)
