"""An ASGI app that is built when the first request for it comes."""

import asyncio
from collections.abc import Callable

from router.contract.errors import InternalFault
from router.edge.admission import report_fault
from router.edge.http.asgi import App, Receive, Scope, Send


class LateApp:
    """Builds its app once, at the first call, in a thread: requests that need none of it go on meanwhile."""

    def __init__(self, build: Callable[[], App]) -> None:
        self._build = build
        self._building = asyncio.Lock()
        self._app: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app or await self._built(scope["state"]["request_id"])
        await app(scope, receive, send)

    async def _built(self, request_id: str) -> App:
        async with self._building:
            if self._app is None:
                try:
                    self._app = await asyncio.to_thread(self._build)
                except Exception as error:
                    report_fault(error, request_id)  # a broken installation, which would else be seen at the start
                    raise InternalFault("Tandem had an internal error") from error
            return self._app
