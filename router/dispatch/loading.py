"""Asking a target that is loading its model, now and then, whether it is ready: so it is used again at once.

A request of its own finds that out first; these are for the time after it. They cost the target nothing: no model is asked.
"""

import asyncio
from collections.abc import Callable

from router.contract.errors import TandemError, UpstreamLoading
from router.contract.relay import Flow, Headers, Routed, RouteRequest
from router.contract.target import Timeouts
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.outgoing import Reachable
from router.dispatch.refused import read_refusal
from router.loop.tasks import spawn

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 2.0
_PAUSE_SHARE = 0.05
"""The pauses grow with the time that it takes, so that none is long next to that. None is as long as a load is believed."""
_MAX_SECONDS = 1_800.0
_ASK_SECONDS = Timeouts(connect_seconds=2.0, first_byte_seconds=2.0, stall_seconds=2.0)
_MAX_BYTES = 4_096
_HEALTH = RouteRequest("GET", "/health", (("accept", "application/json"),), b"", timeouts=_ASK_SECONDS)


def watch_loading(reachable: Reachable, live: LiveStatistics, clock: Callable[[], float]) -> None:
    """Have a target asked until it is ready, unless it is being asked already."""
    if isinstance(reachable.adapter, Routed) and live.await_ready(reachable.target):
        spawn(_watch(reachable, live, clock), name=f"await {reachable.target.name}")


async def _watch(reachable: Reachable, live: LiveStatistics, clock: Callable[[], float]) -> None:
    began, target = clock(), reachable.target
    try:
        while (waited := clock() - began) < _MAX_SECONDS:
            await asyncio.sleep(min(max(_FIRST_PAUSE_SECONDS, waited * _PAUSE_SHARE), _LONGEST_PAUSE_SECONDS))
            words = await _ask(reachable)
            if not words or not live.keep_loading(target, words, clock()):
                break
    finally:
        live.end_loading(target)


async def _ask(reachable: Reachable) -> str:
    """What a target says while it is loading; empty where it says anything else, or nothing."""
    adapter, heard = reachable.adapter, _Health(asyncio.get_running_loop().create_future())
    assert isinstance(adapter, Routed)
    try:
        call = adapter.open_route(reachable.target, _HEALTH, heard)
    except TandemError:  # only a caller has its key
        return ""
    try:
        await heard.finished
    finally:
        call.cancel()
    refusal = read_refusal(reachable, heard.status, (), bytes(heard.body)) if heard.status // 100 != 2 else None
    return refusal.words if isinstance(refusal, UpstreamLoading) else ""


class _Health:
    """A sink that keeps a short answer."""

    def __init__(self, finished: "asyncio.Future[None]") -> None:
        self.finished, self.status, self.body = finished, 200, bytearray()

    def feed_from(self, flow: Flow) -> None:
        """Nothing that is so short needs to be paused."""

    def start(self, status: int, headers: Headers) -> None:
        self.status = status

    def write(self, data: bytes) -> None:
        self.body += data[:_MAX_BYTES]
        if len(self.body) > _MAX_BYTES:
            self.end()

    def end(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)

    def fail(self, error: TandemError) -> None:
        """It is gone, or hangs: the next request sees for itself."""
        self.end()
