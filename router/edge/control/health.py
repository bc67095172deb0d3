"""The panel of probes. The ASGI app answers them itself, since an orchestrator asks a router that serves nobody else."""

from collections.abc import Callable
from typing import cast

from router.contract.notices import Notices
from router.dialects.headers import id_headers
from router.edge.admission import report_fault
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.edge.http.asgi import App, Receive, Scope, Send, body_pieces

_PROBED = ("GET", "HEAD")


class Health:
    """Answers probes."""

    def __init__(self, is_ready: Callable[[], bool], notices: Notices = tuple) -> None:
        self._is_ready, self._notices = is_ready, notices
        self.pages = (
            Page("/healthz", self._live),
            Page("/readyz", self._ready),
            Page("/api/hello", self._hello, _PROBED),
        )

    async def _live(self, _: Asked) -> Answer:
        return as_json({"status": "ok"})

    async def _ready(self, _: Asked) -> Answer:
        """A router without a disk stays ready, and says what is away: requests are served."""
        if not self._is_ready():
            return as_json({"status": "stopping"}, 503)
        away = [notice.text for notice in self._notices() if notice.kind.is_of_store]
        return as_json({"status": "ready", **({"away": away} if away else {})})

    async def _hello(self, _: Asked) -> Answer:
        return as_json({"message": "hello"})

    def as_apps(self) -> dict[tuple[str, str], App]:
        """Its pages by method and path, for a server without the framework."""
        return {(method, page.path): _serving(page) for page in self.pages for method in page.methods}


def _serving(page: Page) -> App:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        request_id = state["request_id"]
        try:
            answer = await page.answer(Asked(request_id, state["caller"], {}, {}, state["headers"], body_pieces(receive)))
        except Exception as error:
            raise report_fault(error, request_id) from error
        body = cast("bytes", answer.body)  # a probe's answer is whole
        headers = (("content-length", str(len(body))), ("content-type", answer.media_type), *id_headers(request_id))
        raw = [(name.encode(), value.encode()) for name, value in headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    return serve
