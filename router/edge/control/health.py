"""The panel of probes. The ASGI app answers them itself, since an orchestrator asks a router that serves nobody else."""

from collections.abc import Callable

from router.contract.notices import Notices
from router.edge.control.panel import Answer, Asked, Group, Page, as_json

_PROBED = ("GET", "HEAD")


class Health:
    """Answers probes."""

    def __init__(self, is_ready: Callable[[], bool], group: Group | None = None, notices: Notices = tuple) -> None:
        self._is_ready, self._group, self._notices = is_ready, group, notices
        self.pages = (
            Page("/healthz", self._live),
            Page("/readyz", self._ready),
            Page("/api/hello", self._hello, _PROBED),
        )

    async def _live(self, _: Asked) -> Answer:
        return as_json({"status": "ok"})

    async def _ready(self, _: Asked) -> Answer:
        """Of several workers each answers for all: a balancer that asks reaches any of them.

        A router without a disk stays ready, and says what is away: requests are served.
        """
        more = self._group.describe() if self._group is not None else {}
        if not self._is_ready():
            return as_json({"status": "stopping", **more}, 503)
        if self._group is not None and not self._group.is_ready:
            return as_json({"status": "starting", **more}, 503)
        away = [notice.text for notice in self._notices() if notice.kind.is_of_store]
        return as_json({"status": "ready", **({"away": away} if away else {}), **more})

    async def _hello(self, _: Asked) -> Answer:
        return as_json({"message": "hello"})
