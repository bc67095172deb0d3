"""Messages between routers over shared channels, and the number of routers.

A message reaches those subscribed at that moment. While the server is away messages are lost, which a channel reports once the
connection is back.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from router.contract.messages import Kind, Message, router_of
from router.stores.valkey.link import Link, Script
from router.telemetry import events

TICK_SECONDS = 0.5
GONE_SECONDS = 5.0
"""Silence after which a router counts as gone."""
VERSION = 1
"""Version of messages' meaning. A new field keeps it: older routers ignore the field."""
MAX_BYTES = 1 << 20
_REPORT_SECONDS = 60.0
_PRESENT = Script("""
    local time = redis.call('TIME')
    local now = time[1] + time[2] / 1000000
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.3f', now - ARGV[2]))
    redis.call('ZADD', KEYS[1], string.format('%.3f', now), ARGV[1])
    redis.call('PEXPIRE', KEYS[1], 2000 * ARGV[2])
    return redis.call('ZRANGE', KEYS[1], 0, -1)
""")


class Channel:
    """A channel of all routers. `take` gets every message, this router's own too; `on_missed` is called after an outage."""

    def __init__(
        self, link: Link, *name: str, take: Callable[[bytes], None], on_missed: Callable[[], None] | None = None
    ) -> None:
        self._link, self.name = link, link.key(*name)
        link.subscribe(self.name, take)
        if on_missed is not None:
            link.on_up(on_missed)

    def publish(self, message: bytes | str = b"") -> None:
        self._link.send_soon("PUBLISH", self.name, message)


class _Head(Struct):
    v: int


class _Envelope(_Head):
    sender: str
    fact: Message


_encode = msgspec.json.Encoder().encode
_read, _read_head = msgspec.json.Decoder(_Envelope).decode, msgspec.json.Decoder(_Head).decode


class ValkeyMessages:
    """Sends and receives this router's messages, and reports its presence once a second.

    Senders have unique names, so that two routers with one configured name are two. While the server is away the last count
    holds: a router on its own must not take all others' share of a limit.
    """

    def __init__(self, link: Link, replica: str, tick_seconds: float = TICK_SECONDS) -> None:
        self._link, self.replica, self._tick_seconds = link, replica, tick_seconds
        self._sender, self._members = f"{replica}/{secrets.token_hex(4)}", link.key("x")
        self._channel = Channel(link, "p", take=self._take)
        self._takers: dict[type, list[Callable[[str, Any], None]]] = {}
        self._on_tick: list[Callable[[], None]] = []
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self.count, self.routers = 1, 1
        """Processes, and their names."""
        self.ignored: Counter[str] = Counter()
        """Ignored messages by reason: `version`, `unreadable`, `too_large`."""
        self._reported: dict[str, float] = {}
        link.register(_PRESENT)
        link.on_up(self._begin)

    @property
    def is_up(self) -> bool:
        return self._link.is_up

    def publish(self, message: Message) -> None:
        self._channel.publish(_encode(_Envelope(VERSION, self._sender, message)))

    def subscribe(self, kind: type[Kind], take: Callable[[str, Kind], None]) -> None:
        self._takers.setdefault(kind, []).append(take)

    def on_tick(self, call: Callable[[], None]) -> None:
        self._on_tick.append(call)

    def close(self) -> None:
        """Sign off before the link is closed, so that the others need not wait for a timeout."""
        if self._timer is not None:
            self._timer.cancel()
        self._link.send_soon("ZREM", self._members, self._sender)

    def _begin(self) -> None:
        self._ticks = 0
        self._tick()

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._tick_seconds, self._tick)
        if not self._link.is_up:
            return
        for call in self._on_tick:
            call()
        if self._ticks % 2 == 0:
            self._link.run(_PRESENT, [self._members], self._sender, GONE_SECONDS).add_done_callback(self._count)
        self._ticks += 1

    def _count(self, answer: "asyncio.Future[Any]") -> None:
        if not answer.cancelled() and answer.exception() is None:
            members: list[bytes] = answer.result()
            self.count = max(1, len(members))
            self.routers = max(1, len({router_of(member.decode("utf-8", "replace")) for member in members}))

    def _take(self, message: bytes) -> None:
        """Any program, or another release's router, can write to the channel."""
        if len(message) > MAX_BYTES:
            self._ignore("too_large")
            return
        try:
            read = _read(message)
        except (msgspec.DecodeError, RecursionError):
            self._ignore("version" if _version_of(message) not in (None, VERSION) else "unreadable")
            return
        if read.v != VERSION:
            self._ignore("version")
        elif read.sender != self._sender:
            for take in self._takers.get(type(read.fact), ()):
                take(read.sender, read.fact)

    def _ignore(self, reason: str) -> None:
        self.ignored[reason] += 1
        now = time.monotonic()
        if now - self._reported.get(reason, float("-inf")) >= _REPORT_SECONDS:
            self._reported[reason] = now
            events.pulse_ignored(reason=reason, count=self.ignored[reason])


def _version_of(message: bytes) -> int | None:
    try:
        return _read_head(message).v
    except (msgspec.DecodeError, RecursionError):
        return None
