"""The control plane, on FastAPI: models, explanations, health. Nothing here is on a token's way."""

from collections.abc import Callable

import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from router.contract.errors import BadRequest, InternalFault, NotFound, TandemError, WrongMethod
from router.contract.request import Json, JsonObject
from router.contract.words import Dialect, Operation
from router.dialects.headers import REQUEST_ID
from router.dialects.json_body import parse_body
from router.dialects.refusals import refusal_body, refusal_headers
from router.dialects.requests import Arrival, guess_dialect
from router.edge.asgi import collect_body
from router.edge.catalogue import Catalogue
from router.edge.doors import Limits, check_body_headers, dialect_of_path
from router.edge.gate import report_fault
from router.edge.responses import add_responses
from router.house import House
from router.telemetry import events

_WELCOME = b'Tandem is running. POST to /v1/chat/completions, /v1/responses or /v1/messages with model "auto".\n'


def build_control(house: House, catalogue: Catalogue, limits: Limits, is_ready: Callable[[], bool]) -> FastAPI:
    """The app for everything that is no create call."""
    app = FastAPI(title="Tandem", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    _add_health(app, is_ready)
    _add_models(app, catalogue)
    _add_explanations(app, house, limits)
    add_responses(app, house.transcripts)
    _add_refusals(app)
    return app


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


def _add_models(app: FastAPI, catalogue: Catalogue) -> None:
    @app.get("/v1/models")
    @app.get("/models")
    async def models(request: Request) -> Response:
        if "client_version" in request.query_params:
            return _json(catalogue.codex(), headers={"etag": 'W/"tandem"'})
        limit = request.query_params.get("limit", "")
        if limit or "anthropic-version" in request.headers:
            most = int(limit) if limit.isascii() and limit.isdigit() and len(limit) < 5 else 20
            return _json(catalogue.anthropic(max(1, min(most, 1_000)), request.query_params.get("after_id")))
        return _json(catalogue.openai())

    @app.get("/v1/models/{name:path}")
    @app.get("/models/{name:path}")
    async def model(name: str) -> Response:
        return _json(catalogue.openai_entry(name))


def _add_explanations(app: FastAPI, house: House, limits: Limits) -> None:
    @app.post("/tandem/explain")
    async def explain(request: Request) -> Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        check_body_headers(headers, limits)
        raw = await collect_body(request.stream().__aiter__(), limits)
        dialect = _asked_dialect(request.query_params.get("dialect"), headers, parse_body(raw))
        arrival = Arrival(request.state.request_id, dialect, Operation.CREATE, headers, raw)
        return _json(await house.explain(arrival), headers={REQUEST_ID: request.state.request_id})

    @app.get("/tandem/decisions/{request_id}")
    async def decision(request_id: str) -> Response:
        found = house.ledger.find_decision(request_id, "local")
        if found is None:
            raise NotFound("no decision with this id, or not yours")
        return _json(dict(found))


def _asked_dialect(asked: str | None, headers: dict[str, str], body: JsonObject) -> Dialect:
    if asked is not None:
        try:
            return Dialect(asked)
        except ValueError:
            known = ", ".join(Dialect)
            raise BadRequest(f'dialect: "{asked[:40]}" is not known. Known: {known}', param="dialect") from None
    if "anthropic-version" in headers and "messages" in body:
        return Dialect.MESSAGES
    return guess_dialect(body)


def _add_refusals(app: FastAPI) -> None:
    def answer(request: Request, error: TandemError) -> Response:
        request_id = request.state.request_id
        events.request_turned_away(status=error.status, code=error.code)
        body = refusal_body(error, dialect_of_path(request.url.path), request_id)
        headers = {REQUEST_ID: request_id, **dict(refusal_headers(error))}
        if request.method not in ("GET", "HEAD"):
            headers["connection"] = "close"  # its body was not read, so what comes next cannot be told from it
        return Response(body, error.status, headers, media_type="application/json")

    @app.exception_handler(TandemError)
    async def refuse(request: Request, error: TandemError) -> Response:
        return answer(request, error)

    @app.exception_handler(HTTPException)
    async def refuse_route(request: Request, error: HTTPException) -> Response:
        path = request.url.path[:100]
        if error.status_code == 405:
            return answer(request, WrongMethod(f"{request.method[:10]} is not allowed on {path}"))
        return answer(request, NotFound(f"no route {path}. Create calls: /v1/chat/completions, /v1/responses, /v1/messages"))

    @app.exception_handler(ClientDisconnect)
    async def forget(request: Request, error: Exception) -> Response:
        return Response(status_code=499)

    @app.exception_handler(Exception)
    async def refuse_fault(request: Request, error: Exception) -> Response:
        report_fault(error, request.state.request_id)
        return answer(request, InternalFault("Tandem had an internal error"))
