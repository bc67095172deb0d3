"""The last hour's responses in a shared Valkey or Redis server.

A response is one value, whose first letter marks it as a record or a deletion. Next to it are its id's owner and, for each
item, a list of the newest responses that hold it. Names and ids are hashed.
"""

import asyncio
from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import Any

import msgspec

from router.contract.caller import Caller
from router.contract.clock import CLOCK
from router.contract.stores import StoredResponse, StoreUnusable
from router.stores.places import DELETED, OTHERS, UNKNOWN, Key, Known
from router.stores.valkey.link import Link, Script
from router.stores.valkey.messages import Channel
from router.telemetry import events

KEPT_SECONDS = 3_600.0
MAX_BYTES = 8 << 20
_OWNED_MS = 86_400_000
"""How long an id's owner is known: a target may keep a response longer than we do."""
_DELETED_MS = 30 * 86_400_000
"""How long a deletion is known: routers may keep a copy on disk as long."""
_RECORD, _DELETED, _OTHERS = b"R", b"D", b"O"
_KIND = "responses"

_KEEP = Script("""
    local there = redis.call('GETRANGE', KEYS[1], 0, 0)
    if there == 'D' or (ARGV[1] == '1' and there ~= '') then return 0 end
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[5])
    for i = 3, #KEYS do
        redis.call('LPUSH', KEYS[i], ARGV[6])
        redis.call('LTRIM', KEYS[i], 0, 7)
        redis.call('PEXPIRE', KEYS[i], ARGV[3])
    end
    return 1
""")
_LOOK = Script("""
    local found = redis.call('GET', KEYS[1])
    if found then return found end
    local owner = redis.call('GET', KEYS[2])
    if owner and owner ~= ARGV[1] then return 'O' end
    return false
""")
_HOLDER = Script("""
    local best, newest = false, -1
    for _, key in ipairs(KEYS) do
        for _, held in ipairs(redis.call('LRANGE', key, 0, -1)) do
            local at, name = string.match(held, '^([%d.]+) (.+)$')
            if at and tonumber(at) > newest and redis.call('GETRANGE', name, 0, 0) == 'R' then
                best, newest = name, tonumber(at)
            end
        end
    end
    return best and redis.call('GET', best)
""")
_STATES = Script("""
    local states = {}
    for i, key in ipairs(KEYS) do states[i] = redis.call('GETRANGE', key, 0, 0) end
    return states
""")
_BURY = Script("""
    redis.call('DEL', KEYS[1]) -- a server that is full allows this, and after it what the script writes next
    redis.call('SET', KEYS[1], 'D', 'PX', ARGV[1])
    redis.call('PUBLISH', KEYS[2], ARGV[2])
    return 1
""")

_Kept = tuple[str, str, float, bytes]
_read = msgspec.msgpack.Decoder(_Kept).decode
_write = msgspec.msgpack.encode
_read_gone = msgspec.msgpack.Decoder(list[str]).decode


class ValkeyResponses:
    """A `Place` for an hour. Responses over 8 MiB are not sent."""

    def __init__(self, link: Link, clock: Callable[[], float] = CLOCK.trusted) -> None:
        self.link, self._clock = link, clock
        for script in (_KEEP, _LOOK, _HOLDER, _STATES, _BURY):
            link.register(script)
        self._gone = Channel(link, "r", "gone", take=self._take_gone)
        self.on_gone: Callable[[str, Caller], None] = lambda response_id, caller: None
        self._unwritten = Channel(link, "r", "unwritten", take=lambda message: self.on_unwritten())
        self.on_unwritten: Callable[[], None] = lambda: None

    def takes(self, response: StoredResponse) -> bool:
        return len(response.raw) <= MAX_BYTES

    async def keep(self, response: StoredResponse, *, is_late: bool = False) -> None:
        await self.send(response, is_late=is_late)

    def send(self, response: StoredResponse, *, is_late: bool = False) -> "asyncio.Future[Any]":
        """Send a response at once, ahead of this router's later commands. Raises `StoreUnusable`."""
        if not self.takes(response):
            raise StoreUnusable("the response is too large")
        left_ms = int((response.at + KEPT_SECONDS - self._clock()) * 1_000)
        try:
            value = _RECORD + _write((response.id, response.target, response.at, response.raw))
        except UnicodeEncodeError as error:
            raise StoreUnusable("the id is not valid text") from error
        key, caller = self.key_of(response.id, response.caller), response.caller
        items = [self._item_key(item_id, caller) for item_id in response.item_ids]
        words = (int(is_late), value, max(left_ms, 1), _hash(caller.name), _OWNED_MS, f"{response.at:.6f} {key}")
        return self.link.run(_KEEP, [key, self._owner_key(response.id), *items], *words)

    def report_unwritten(self) -> None:
        """A full server still passes messages on."""
        self._unwritten.publish()

    def is_over(self, response: StoredResponse) -> bool:
        return response.at + KEPT_SECONDS <= self._clock()

    async def find(self, response_id: str, caller: Caller) -> Known:
        key = self.key_of(response_id, caller)
        found: bytes | None = await self.link.run(_LOOK, [key, self._owner_key(response_id)], _hash(caller.name))
        if found == _DELETED:
            return DELETED
        if found == _OTHERS:
            return OTHERS
        response = _to_response(found, caller, response_id) if found is not None else None
        return Known(response) if response is not None else UNKNOWN

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        found: bytes | None = await self.link.run(_HOLDER, [self._item_key(item_id, caller) for item_id in item_ids])
        return _to_response(found, caller) if found is not None else None

    async def delete(self, response_id: str, caller: Caller) -> None:
        words = (_DELETED_MS, _write((response_id.encode("utf-8", "replace").decode(), caller.name)))
        await self.link.run(_BURY, [self.key_of(response_id, caller), self._gone.name], *words)

    async def sort_out(self, keys: Collection[Key]) -> tuple[list[Key], list[Key]]:
        states: list[bytes] = await self.link.run(_STATES, [self.key_of(name, caller) for caller, name in keys]) if keys else []
        found = list(zip(keys, states, strict=True))
        return [key for key, state in found if not state], [key for key, state in found if state == _DELETED]

    def _take_gone(self, message: bytes) -> None:
        try:
            response_id, caller, *_ = _read_gone(message)
        except (ValueError, msgspec.MsgspecError):
            return
        self.on_gone(response_id, Caller(caller))

    def key_of(self, response_id: str, caller: Caller) -> str:
        return self.link.key("r", _hash(f"{caller.name}\0\0{response_id}"))

    def _owner_key(self, response_id: str) -> str:
        return self.link.key("r", "o", _hash(response_id))

    def _item_key(self, item_id: str, caller: Caller) -> str:
        return self.link.key("r", "i", _hash(f"{caller.name}\0\0{item_id}"))


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _to_response(value: bytes, caller: Caller, expected_id: str | None = None) -> StoredResponse | None:
    """None for a foreign value or another response."""
    try:
        if value[:1] != _RECORD:
            raise ValueError
        response_id, target, at, raw = _read(value[1:])
        if expected_id not in (None, response_id):
            raise ValueError
    except (ValueError, msgspec.MsgspecError):
        events.value_unreadable(store="valkey", kind=_KIND)
        return None
    return StoredResponse(response_id, caller, target, at, raw)
