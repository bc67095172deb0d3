"""Probes: whether the process lives, whether it takes requests, and what clients ask for before they begin."""

from collections.abc import Callable

from router.contract.group import Group
from router.edge.control.panel import Answer, Asked, Page, as_json

_PROBED = ("GET", "HEAD")


class Health:
    """Answers probes."""

    def __init__(self, is_ready: Callable[[], bool], group: Group | None = None) -> None:
        self._is_ready, self._group = is_ready, group
        self.pages = (
            Page("/healthz", self._live),
            Page("/readyz", self._ready),
            Page("/api/hello", self._hello, _PROBED),
        )

    async def _live(self, _: Asked) -> Answer:
        return as_json({"status": "ok"})

    async def _ready(self, _: Asked) -> Answer:
        """Of several workers each answers for all: a balancer that asks reaches any of them."""
        more = self._group.describe() if self._group is not None else {}
        if not self._is_ready():
            return as_json({"status": "stopping", **more}, 503)
        if self._group is not None and not self._group.is_ready:
            return as_json({"status": "starting", **more}, 503)
        return as_json({"status": "ready", **more})

    async def _hello(self, _: Asked) -> Answer:
        return as_json({"message": "hello"})
