"""How many routers use the same server now. Each reports itself every second, and one that has been silent for five is gone."""

import asyncio
import secrets
from typing import Any

from router.contract.pulse import name_of
from router.stores.valkey.link import Link, Script

BEAT_SECONDS = 1.0
GONE_SECONDS = 5.0

_REPORT = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.3f', now - ARGV[2]))
redis.call('ZADD', KEYS[1], string.format('%.3f', now), ARGV[1])
redis.call('PEXPIRE', KEYS[1], 2000 * ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
"""


class Alive:
    """Reports that this router is alive, and knows how many are, itself included.

    A router has a name of its own here, so that two whose configs name them alike are two. While the server is away, the last
    count holds: a router that is alone with a limit must not take the share of all others.
    """

    def __init__(self, link: Link, replica: str, beat_seconds: float = BEAT_SECONDS) -> None:
        self._link, self._key, self._beat_seconds = link, link.key("x"), beat_seconds
        self.own_name = f"{replica}/{secrets.token_hex(4)}"
        self._script = link.register(Script(_REPORT))
        self._timer: asyncio.TimerHandle | None = None
        self.count = 1
        """How many processes are alive; 1 before the first answer."""
        self.names = frozenset({replica})
        """The names of their routers. Workers of one router share its name."""
        link.on_up(self._beat)

    def _beat(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._beat_seconds, self._beat)
        if self._link.is_up:
            self._link.run(self._script, [self._key], self.own_name, GONE_SECONDS).add_done_callback(self._take)

    def _take(self, answer: "asyncio.Future[Any]") -> None:
        if not answer.cancelled() and answer.exception() is None:
            members: list[bytes] = answer.result()
            self.count = max(1, len(members))
            self.names = frozenset(name_of(member.decode("utf-8", "replace")) for member in members)

    def close(self) -> None:
        """Leave before the link is closed: the others need not wait until this router is missed."""
        if self._timer is not None:
            self._timer.cancel()
        self._link.tell_soon("ZREM", self._key, self.own_name)
