"""Explanations: what would be decided for a request, and what was."""

from router.contract.caller import LOCAL
from router.contract.errors import BadRequest, NotFound
from router.contract.exchange import Arrival
from router.contract.request import JsonObject
from router.contract.stores import EntryStore
from router.contract.words import Dialect, Operation
from router.dialects.json_body import parse_body, refuse_crowded
from router.dialects.requests import guess_dialect
from router.dialects.responses.background import AskedBackground
from router.dialects.table import SPECS
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.edge.http.bodies import read_body
from router.edge.logins import PAGE_HEADER
from router.edge.routes import EXPLAIN
from router.house import House


class Explanations:
    """Explains decisions."""

    def __init__(self, house: House, entries: EntryStore) -> None:
        self._house, self._entries = house, entries
        self.pages = (Page(EXPLAIN, self._explain, ("POST",)), Page("/tandem/decisions/{request_id}", self._find))

    async def _explain(self, asked: Asked) -> Answer:
        headers = {name: value for name, value in asked.headers.items() if name != PAGE_HEADER}  # not an override
        off_loop = self._house.state.speedups.off_loop
        raw = await read_body(asked.body, asked.headers, self._house.plan.limits, off_loop)
        refuse_crowded(raw)
        body = await off_loop.read(parse_body, raw)
        dialect = _asked_dialect(asked.query.get("dialect"), headers, body)
        arrival, plan = Arrival(asked.request_id, dialect, Operation.CREATE, headers, raw, asked.caller), self._house.plan
        if body.get("background") is True and SPECS[dialect].continues_responses:
            arrival, plan = AskedBackground(arrival).arrival, plan.for_background()
        return as_json(await self._house.explain(arrival, plan))

    async def _find(self, asked: Asked) -> Answer:
        name, find = asked.path["request_id"], self._entries.find_decision
        found = await find(name, asked.caller)
        # Without keys everybody here may do everything, but who brings a key for a target is still somebody of their own.
        if found is None and asked.rights.is_admin and (asked.key is not None or asked.caller == LOCAL):
            found = await find(name, None)
        if found is None:
            raise NotFound("no decision with this id for this caller")
        return as_json(dict(found))


def _asked_dialect(asked: str | None, headers: dict[str, str], body: JsonObject) -> Dialect:
    if asked is not None:
        try:
            return Dialect(asked)
        except ValueError:
            known = ", ".join(Dialect)
            raise BadRequest(f'dialect: unknown dialect "{asked[:40]}". Known: {known}', param="dialect") from None
    return guess_dialect(body, headers)
