"""Responses that are kept here, by id: read one, delete one, list what it was given, and say that none can be cancelled."""

import orjson
from fastapi import FastAPI, Request, Response

from router.contract.digits import as_written
from router.contract.errors import BadRequest, NotFound
from router.contract.stores import StoredResponse
from router.edge.admission import Road
from router.responses.items import list_items

_MAX_ITEMS = 100
_DEFAULT_ITEMS = 20


def add_responses(app: FastAPI, road: Road) -> None:
    """The routes below `/v1/responses/{id}`."""

    async def found(request: Request, response_id: str) -> StoredResponse:
        response = await road.state.responses.find(response_id, request.state.caller)
        if response is None:
            raise _unknown(response_id)
        return response

    def answer(body: object) -> Response:
        return Response(orjson.dumps(body, default=as_written), media_type="application/json")

    @app.get("/v1/responses/{response_id}")
    @app.get("/responses/{response_id}")
    async def retrieve(request: Request, response_id: str) -> Response:
        if request.query_params.get("stream", "false").lower() not in ("false", "0"):
            raise BadRequest("stream: not supported for a finished response. Leave it out", param="stream")
        return answer((await found(request, response_id)).read()[1])

    @app.delete("/v1/responses/{response_id}")
    @app.delete("/responses/{response_id}")
    async def delete(request: Request, response_id: str) -> Response:
        if not await road.state.responses.forget(response_id, request.state.caller):
            raise _unknown(response_id)
        return answer({"id": response_id, "object": "response", "deleted": True})

    @app.post("/v1/responses/{response_id}/cancel")
    @app.post("/responses/{response_id}/cancel")
    async def cancel(request: Request, response_id: str) -> Response:
        await found(request, response_id)
        # Nothing here runs in the background: what is stored is finished. In OpenAI's words, since clients look for them.
        raise BadRequest("Cannot cancel a synchronous response")

    @app.get("/v1/responses/{response_id}/input_items")
    @app.get("/responses/{response_id}/input_items")
    async def input_items(request: Request, response_id: str) -> Response:
        asked = request.query_params
        order = asked.get("order", "desc")
        if order not in ("asc", "desc"):
            raise BadRequest(f'order: must be asc or desc, not "{order[:20]}"', param="order")
        limit = _read_limit(asked.get("limit"))
        response = await found(request, response_id)
        return answer(list_items(response, asked.get("after"), limit, newest_first=order == "desc"))


def _read_limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_ITEMS
    limit = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not 1 <= limit <= _MAX_ITEMS:
        raise BadRequest(f'limit: must be 1 to {_MAX_ITEMS}, not "{text[:20]}"', param="limit")
    return limit


def _unknown(response_id: str) -> NotFound:
    return NotFound(
        f"Response with id '{response_id[:80]}' not found: never stored, deleted or expired",
        param="response_id",
    )
