"""Probes: whether the process lives, whether it takes requests, and what clients ask for before they begin."""

from collections.abc import Callable

from router.edge.control.panel import Answer, Asked, Page, as_json

_PROBED = ("GET", "HEAD")


class Health:
    """Answers probes."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready
        self.pages = (
            Page("/healthz", self._live),
            Page("/readyz", self._ready),
            Page("/api/hello", self._hello, _PROBED),
        )

    async def _live(self, _: Asked) -> Answer:
        return as_json({"status": "ok"})

    async def _ready(self, _: Asked) -> Answer:
        return as_json({"status": "ready"}) if self._is_ready() else as_json({"status": "stopping"}, 503)

    async def _hello(self, _: Asked) -> Answer:
        return as_json({"message": "hello"})
