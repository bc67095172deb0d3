"""The app that carries the panels, on FastAPI: routing, the id on every answer, refusals. None of it is on a token's way."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import anyio._backends._asyncio  # noqa: F401  Starlette's first stream would load it, 0.1 s on the loop
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.routing import Match, Route

from router.contract.caller import Caller
from router.contract.errors import NotFound, NotPermitted, TandemError, WrongMethod
from router.contract.rights import Rights
from router.contract.words import Dialect
from router.dialects.headers import id_headers
from router.dialects.refusals import write_refusal
from router.edge.admission import report_fault
from router.edge.control.panel import Asked, Page, Panel
from router.edge.http.asgi import App, Receive, Scope, Send
from router.edge.http.control_connection import STREAMS
from router.edge.http.refuse import CLOSE, reject
from router.edge.routes import dialect_of_path

_BROWSERS = ("/favicon", "/apple-touch-icon", "/.well-known/", "/robots.txt")
"""What a browser asks for by itself."""


def build_control(panels: Iterable[Panel], rights_of: Callable[[Caller, str | None], Rights]) -> FastAPI:
    """The app for everything that is not a create call. `rights_of` says what a caller may do now with a key."""
    app = FastAPI(title="Tandem", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    for page in (page for panel in panels for page in panel.pages):
        for path in dict.fromkeys((page.path, page.path.removeprefix("/v1"))):
            app.add_api_route(path, _serving(page, rights_of), methods=[*page.methods])
    _add_refusals(app)
    app.add_middleware(NamedAnswers)
    return app


def _serving(page: Page, rights_of: Callable[[Caller, str | None], Rights]) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        path, query, state, headers = request.path_params, request.query_params, request.state, request.state.headers
        rights = rights_of(state.caller, state.key)
        if page.needs_admin and not rights.is_admin:
            raise NotPermitted(f"{page.path} needs a key with the right admin")
        asked = Asked(
            state.request_id,
            state.caller,
            path,
            query,
            headers,
            request.stream().__aiter__(),
            rights,
            key=state.key,
            peer=request.scope.get("client"),
            is_encrypted=request.scope.get("scheme") == "https",
        )
        body, media_type, status, more = await page.answer(asked)
        if isinstance(body, bytes):
            return Response(body, status, more, media_type=media_type)
        request.scope["state"][STREAMS] = True
        return StreamingResponse(body, status, more, media_type=media_type)

    return serve


class NamedAnswers:
    """Puts the request's id on every answer, by the names that clients look for."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:

        async def send_named(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                known = {name for name, _ in message["headers"]}
                ids = ((name.encode(), value.encode()) for name, value in id_headers(scope["state"]["request_id"]))
                message["headers"] = [*message["headers"], *(header for header in ids if header[0] not in known)]
            await send(message)

        await self._app(scope, receive, send_named)


def refusal_response(
    error: TandemError, dialect: Dialect, request_id: str, *, closes: bool, is_logged: bool = True
) -> Response:
    """A rejection for Starlette. `closes` is for a request whose body may not have been read."""
    refusal = (reject if is_logged else write_refusal)(error, dialect, request_id)
    return Response(refusal.body, refusal.status, dict(refusal.headers + CLOSE if closes else refusal.headers))


def _methods_of(app: FastAPI, scope: Scope) -> set[str]:
    """The methods that a path takes. The framework names those of the first route alone."""
    return {
        method
        for route in app.routes
        if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


def _add_refusals(app: FastAPI) -> None:
    def answer(request: Request, error: TandemError) -> Response:
        closes = request.method not in ("GET", "HEAD")
        path = request.scope["path"]
        is_browsers = path.startswith(_BROWSERS) and not closes
        return refusal_response(
            error, dialect_of_path(path, request.headers), request.state.request_id, closes=closes, is_logged=not is_browsers
        )

    @app.exception_handler(TandemError)
    async def refuse(request: Request, error: TandemError) -> Response:
        return answer(request, error)

    @app.exception_handler(HTTPException)
    async def refuse_route(request: Request, error: HTTPException) -> Response:
        path = request.scope["path"][:100]
        if error.status_code == 405:
            allowed = ", ".join(sorted(_methods_of(app, request.scope)))
            return answer(
                request, WrongMethod(f"{request.method[:10]} is not allowed on {path}. Use {allowed}", allowed=allowed)
            )
        return answer(request, NotFound(f"no route {path}. Create calls: /v1/chat/completions, /v1/responses, /v1/messages"))

    @app.exception_handler(ClientDisconnect)
    async def forget(request: Request, error: Exception) -> Response:
        return Response(status_code=499)

    @app.exception_handler(Exception)
    async def refuse_fault(request: Request, error: Exception) -> Response:
        return answer(request, report_fault(error, request.state.request_id))
