"""Probes: whether the process lives, whether it takes requests, and what clients ask for before they begin."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from router.edge.control.panel import Answer, Page, as_json

if TYPE_CHECKING:
    from starlette.requests import Request

_WELCOME = b'Tandem is running. POST to /v1/chat/completions, /v1/responses or /v1/messages with model "auto".\n'
_PROBED = ("GET", "HEAD")


class Health:
    """Answers probes."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready
        self.pages = (
            Page("/healthz", self._live),
            Page("/readyz", self._ready),
            Page("/", self._welcome, _PROBED),
            Page("/api/hello", self._hello, _PROBED),
        )

    async def _live(self, _: "Request") -> Answer:
        return as_json({"status": "ok"})

    async def _ready(self, _: "Request") -> Answer:
        return as_json({"status": "ready"}) if self._is_ready() else as_json({"status": "stopping"}, 503)

    async def _welcome(self, _: "Request") -> Answer:
        return Answer(_WELCOME, "text/plain")

    async def _hello(self, _: "Request") -> Answer:
        return as_json({"message": "hello"})
