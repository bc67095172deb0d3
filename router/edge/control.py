"""The control plane, on FastAPI: models, explanations, health. Nothing here is on a token's way."""

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route

from router.contract.errors import BadRequest, InternalFault, NotFound, TandemError, WrongMethod
from router.contract.exchange import Arrival
from router.contract.request import Json, JsonObject
from router.contract.words import Dialect, Operation
from router.dialects.headers import id_headers
from router.dialects.json_body import parse_body, refuse_crowded
from router.dialects.messages.versions import VERSION
from router.dialects.requests import guess_dialect
from router.dispatch.live.picture import draw
from router.edge.admission import Plan, Road, report_fault
from router.edge.catalogue import Catalogue, OwnLists
from router.edge.http.asgi import App, Receive, Scope, Send, collect_body
from router.edge.refuse import refusal_response
from router.edge.responses import add_responses
from router.edge.routes import EXPLAIN, dialect_of_path
from router.loop.tasks import HEAVY_BYTES, run_in_thread

_WELCOME = b'Tandem is running. POST to /v1/chat/completions, /v1/responses or /v1/messages with model "auto".\n'
_BROWSERS = ("/favicon", "/apple-touch-icon", "/.well-known/", "/robots.txt")
"""What a browser asks for by itself."""


def build_control(road: Road, is_ready: Callable[[], bool]) -> FastAPI:
    """The app for everything that is not a create call. It reads the road's plan anew for each request."""
    app = FastAPI(title="Tandem", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    _add_health(app, is_ready)
    _add_models(app, CurrentCatalogue(road))
    _add_explanations(app, road)
    _add_stats(app, road)
    add_responses(app, road)
    _add_refusals(app)
    app.add_middleware(NamedAnswers)
    return app


class NamedAnswers:
    """Puts the request's id on every answer, by the names that clients look for."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_named(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                known = {name for name, _ in message["headers"]}
                ids = ((name.encode(), value.encode()) for name, value in id_headers(scope["state"]["request_id"]))
                message["headers"] = [*message["headers"], *(header for header in ids if header[0] not in known)]
            await send(message)

        await self._app(scope, receive, send_named)


class CurrentCatalogue:
    """The catalogue of the plan that counts now, made once for each plan and each window that a target names itself."""

    def __init__(self, road: Road) -> None:
        self._road = road
        self._plan: Plan | None = None
        self._windows: Mapping[str, int] = {}
        self._catalogue: Catalogue

    def __call__(self) -> Catalogue:
        plan, live = self._road.plan, self._road.state.live
        if plan is not self._plan or live.windows is not self._windows:
            targets = {name: live.known(target) for name, target in plan.targets.items()}
            self._plan, self._windows = plan, live.windows
            self._catalogue = Catalogue(plan.models, targets, plan.window_of_auto)
        return self._catalogue


def _json(body: Json, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(body), status, headers, media_type="application/json")


def _add_health(app: FastAPI, is_ready: Callable[[], bool]) -> None:
    @app.get("/healthz")
    async def healthz() -> Response:
        return _json({"status": "ok"})

    @app.get("/readyz")
    async def readyz() -> Response:
        return _json({"status": "ready"}) if is_ready() else _json({"status": "stopping"}, 503)

    @app.api_route("/", methods=["GET", "HEAD"])
    async def welcome() -> Response:
        return Response(_WELCOME, media_type="text/plain")

    @app.api_route("/api/hello", methods=["GET", "HEAD"])
    async def hello() -> Response:
        return _json({"message": "hello"})


def _add_models(app: FastAPI, current: CurrentCatalogue) -> None:
    own_lists = OwnLists()

    @app.get("/v1/models")
    @app.get("/models")
    async def models(request: Request) -> Response:
        catalogue = current()
        if (own := own_lists.find(request.query_params, catalogue)) is not None:
            return _json(own, headers={"etag": 'W/"tandem"'})
        limit = request.query_params.get("limit", "")
        if limit or VERSION in request.headers:
            most = int(limit) if limit.isascii() and limit.isdigit() and len(limit) < 5 else 20
            return _json(catalogue.anthropic(max(1, min(most, 1_000)), request.query_params.get("after_id")))
        return _json(catalogue.openai())

    @app.get("/v1/models/{name:path}")
    @app.get("/models/{name:path}")
    async def model(request: Request, name: str) -> Response:
        catalogue = current()
        return _json(catalogue.anthropic_entry(name) if VERSION in request.headers else catalogue.openai_entry(name))


def _add_explanations(app: FastAPI, road: Road) -> None:
    @app.post(EXPLAIN)
    async def explain(request: Request) -> Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        raw = await collect_body(request.stream().__aiter__(), road.plan.limits)
        refuse_crowded(raw)
        body = await run_in_thread(parse_body, raw) if len(raw) > HEAVY_BYTES else parse_body(raw)
        dialect = _asked_dialect(request.query_params.get("dialect"), headers, body)
        request_id, caller = request.state.request_id, request.state.caller
        arrival = Arrival(request_id, dialect, Operation.CREATE, headers, raw, caller)
        return _json(await road.explain(arrival))

    @app.get("/tandem/decisions/{request_id}")
    async def decision(request: Request, request_id: str) -> Response:
        found = await road.state.entries.find_decision(request_id, request.state.caller)
        if found is None:
            raise NotFound("no decision with this id for this caller")
        return _json(dict(found))


def _add_stats(app: FastAPI, road: Road) -> None:
    @app.get("/tandem/stats")
    async def stats() -> Response:
        live, targets, now = road.state.live, road.plan.targets, road.clock()
        return _json({"targets": draw(live, targets, now), "quotas": live.queues.picture(targets, now)})


def _asked_dialect(asked: str | None, headers: dict[str, str], body: JsonObject) -> Dialect:
    if asked is not None:
        try:
            return Dialect(asked)
        except ValueError:
            known = ", ".join(Dialect)
            raise BadRequest(f'dialect: unknown dialect "{asked[:40]}". Known: {known}', param="dialect") from None
    return guess_dialect(body, headers)


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
        report_fault(error, request.state.request_id)
        return answer(request, InternalFault("Tandem had an internal error"))
