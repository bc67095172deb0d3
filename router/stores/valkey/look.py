"""One look at the Valkey or Redis server that routers share, for `tandem stores`."""

import asyncio
import time
from typing import NamedTuple

from router.contract.shared import ValkeyTerms
from router.stores.look import time_trips
from router.stores.valkey.link import Link

_LOOK_SECONDS = 5.0
_GONE_SECONDS = 5.0
"""A router that has been silent for this long is gone."""


class ValkeyLook(NamedTuple):
    version: str
    latency_ms: float
    clock_ahead_seconds: float
    routers: int
    """How many routers have reported themselves in the last seconds."""


def look_at_valkey(terms: ValkeyTerms) -> ValkeyLook:
    """Ask the server. Raises `StoreUnusable`."""
    return asyncio.run(_look(terms.waiting(_LOOK_SECONDS)))


async def _look(terms: ValkeyTerms) -> ValkeyLook:
    link = Link(terms)
    try:
        await link.connect()
        latency_ms = await time_trips(lambda: link.ask("PING"))
        seconds, microseconds = await link.ask("TIME")
        now = int(seconds) + int(microseconds) / 1e6
        routers = await link.ask("ZCOUNT", link.key("x"), f"{now - _GONE_SECONDS:.3f}", "+inf")
        await link.ask("SET", link.key("x", "look"), "", "PX", 1_000)  # a full server answers, and refuses this
        return ValkeyLook(link.version, latency_ms, now - time.time(), int(routers))
    finally:
        await link.close()
