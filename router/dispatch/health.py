"""Polls a target that is loading its model, or a local engine that rests: it is used as soon as it is ready.

What is asked asks no model, and costs nothing.
"""

import asyncio
from collections.abc import Callable

from router.contract.errors import UpstreamLoading
from router.contract.relay import HEALTH_PATH, MODELS_PATH, Routed, RouteRequest
from router.contract.sinks import Collected
from router.contract.target import Timeouts
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.outgoing import Reachable
from router.dispatch.passing import collect_route
from router.dispatch.refused import read_refusal
from router.loop.tasks import spawn

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 2.0
_PAUSE_SHARE = 0.05
"""Pauses grow with the load, so none is long next to it, nor as long as a load is believed."""
_MAX_SECONDS = 1_800.0
_ASK_SECONDS = Timeouts(connect_seconds=2.0, first_byte_seconds=2.0, stall_seconds=2.0)
_MAX_BYTES = 4_096
_NO_ROUTE = (404, 405)


def watch_health(reachable: Reachable, live: LiveStatistics, clock: Callable[[], float]) -> None:
    if isinstance(reachable.adapter, Routed) and live.await_ready(reachable.target):
        spawn(_watch(reachable, live, clock), name=f"await {reachable.target.name}")


async def _watch(reachable: Reachable, live: LiveStatistics, clock: Callable[[], float]) -> None:
    began, target = clock(), reachable.target
    try:
        while (waited := clock() - began) < _MAX_SECONDS:
            await asyncio.sleep(min(max(_FIRST_PAUSE_SECONDS, waited * _PAUSE_SHARE), _LONGEST_PAUSE_SECONDS))
            words = await _ask(reachable)
            is_out = live.keep_loading(target, words, clock()) if words else live.keep_resting(target, is_gone=words is None)
            if not is_out:
                break
    finally:
        live.end_loading(target)


async def _ask(reachable: Reachable) -> str | None:
    """The target's words while it is loading; empty if it answers otherwise, None if it is gone, hangs or fails."""
    heard = await _get(reachable, path := reachable.health_path or HEALTH_PATH)
    if heard.status in _NO_ROUTE and path == HEALTH_PATH:
        heard = await _get(reachable, MODELS_PATH)
    status = heard.status
    refusal = read_refusal(reachable, status, (), bytes(heard.body)) if status and status // 100 != 2 else None
    if isinstance(refusal, UpstreamLoading):
        return refusal.words
    return "" if 0 < status < 500 else None


async def _get(reachable: Reachable, path: str) -> Collected:
    request = RouteRequest("GET", path, (("accept", "application/json"),), b"", timeouts=_ASK_SECONDS)
    return await collect_route(reachable, request, _MAX_BYTES)
