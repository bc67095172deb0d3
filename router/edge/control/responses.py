"""Responses that are kept here, by id: read one, delete one, list what it was given. Jobs: `router/jobs/panel.py`."""

from router.contract.errors import BadRequest, NotFound
from router.contract.stores import ResponseStore, StoredResponse
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.responses.items import list_items

_MAX_ITEMS = 100
_DEFAULT_ITEMS = 20
_ONE = "/v1/responses/{response_id}"


class Responses:
    """Shows each caller the responses that are stored for it."""

    def __init__(self, responses: ResponseStore) -> None:
        self._responses = responses
        self.pages: tuple[Page, ...] = (
            Page(_ONE, self._retrieve),
            Page(_ONE, self._delete, ("DELETE",)),
            Page(f"{_ONE}/cancel", self._cancel, ("POST",)),
            Page(f"{_ONE}/input_items", self._list_input),
        )

    async def _found(self, asked: Asked) -> StoredResponse:
        response_id = asked.path["response_id"]
        response = await self._responses.find(response_id, asked.caller)
        if response is None:
            raise _unknown(response_id)
        return response

    async def _retrieve(self, asked: Asked) -> Answer:
        found = await self._found(asked)
        if asked.query.get("stream", "false").lower() not in ("false", "0"):
            raise BadRequest("stream: not supported for a response without background: true. Leave it out", param="stream")
        return as_json(found.read()[1])

    async def _delete(self, asked: Asked) -> Answer:
        response_id = asked.path["response_id"]
        if not await self._responses.forget(response_id, asked.caller):
            raise _unknown(response_id)
        return as_json({"id": response_id, "object": "response", "deleted": True})

    async def _cancel(self, asked: Asked) -> Answer:
        await self._found(asked)
        # Not a job: what is stored is finished. In OpenAI's words, since clients look for them.
        raise BadRequest("Cannot cancel a synchronous response")

    async def _list_input(self, asked: Asked) -> Answer:
        order = asked.query.get("order", "desc")
        if order not in ("asc", "desc"):
            raise BadRequest(f'order: must be asc or desc, not "{order[:20]}"', param="order")
        limit = read_limit(asked.query.get("limit"))
        return as_json(list_items(await self._found(asked), asked.query.get("after"), limit, newest_first=order == "desc"))


def read_limit(text: str | None) -> int:
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
