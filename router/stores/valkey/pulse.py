"""Facts that routers tell each other over a channel of the server that they share. What is not understood is counted."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from router.contract.pulse import Kind, LiveFact
from router.stores.valkey.alive import Alive
from router.stores.valkey.link import Link
from router.stores.watches import Watches
from router.telemetry import events

BEAT_SECONDS = 0.5
VERSION = 1
"""Of what messages mean. A field that is new does not change it: routers of an earlier release pass over it."""
MAX_BYTES = 1 << 20
_REPORT_SECONDS = 60.0


class _Head(Struct):
    v: int


class _Message(_Head):
    sender: str
    fact: LiveFact


_encode = msgspec.json.Encoder().encode
_read, _read_head = msgspec.json.Decoder(_Message).decode, msgspec.json.Decoder(_Head).decode


class ValkeyPulse:
    """Speaks and listens for this router on the channel of all routers."""

    def __init__(self, link: Link, replica: str, alive: Alive, beat_seconds: float = BEAT_SECONDS) -> None:
        self._link, self._alive, self._beat_seconds = link, alive, beat_seconds
        self.replica, self._own_name = replica, alive.own_name
        self._channel = link.key("p")
        self._takers: dict[type, list[Callable[[str, Any], None]]] = {}
        self._beats: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.ignored: Counter[str] = Counter()
        """How many messages were passed over, by why: `version`, `unreadable`, `too_large`."""
        self._reported: dict[str, float] = {}
        link.subscribe(self._channel, self._hear)
        link.on_up(self._beat)

    @property
    def routers(self) -> int:
        return max(1, len(self._alive.names))

    @property
    def is_up(self) -> bool:
        return self._link.is_up

    def tell(self, fact: LiveFact) -> None:
        self._link.tell_soon("PUBLISH", self._channel, _encode(_Message(VERSION, self._own_name, fact)))

    def hear(self, kind: type[Kind], take: Callable[[str, Kind], None]) -> None:
        self._takers.setdefault(kind, []).append(take)

    def on_beat(self, call: Callable[[], None]) -> None:
        self._beats.append(call)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._beat_seconds, self._beat)
        if self._link.is_up:
            for call in self._beats:
                call()

    def _hear(self, message: bytes) -> None:
        """Take a message. Any program can write to the channel, and so can a router of another release."""
        if len(message) > MAX_BYTES:
            self._ignore("too_large")
            return
        try:
            heard = _read(message)
        except (msgspec.DecodeError, RecursionError):
            self._ignore("version" if _version_of(message) not in (None, VERSION) else "unreadable")
            return
        if heard.v != VERSION:
            self._ignore("version")
        elif heard.sender != self._own_name:
            for take in self._takers.get(type(heard.fact), ()):
                take(heard.sender, heard.fact)

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


_CHANNEL = ("p", "jobs")
_ANY = b"*"
"""A job may be there to be claimed. No id has this form."""


class SharedWatches(Watches):
    """Watches that also notice what other workers note. While the server is away, each notices its own alone."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link, self._channel = link, link.key(*_CHANNEL)
        link.subscribe(self._channel, self._hear)

    def note(self, job_id: str | None) -> None:
        super().note(job_id)
        self._link.tell_soon("PUBLISH", self._channel, _ANY if job_id is None else job_id)

    def _hear(self, message: bytes) -> None:
        """Pass on what was noted, by this worker too: who is woken twice finds nothing new the second time."""
        super().note(None if message == _ANY else message.decode("utf-8", "replace"))
