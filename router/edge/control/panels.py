"""The small panels: the list of models, notices and reload."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

import orjson
from msgspec import to_builtins

from router.config.faults import ConfigError
from router.contract.credential import credential_for
from router.contract.errors import NotFound
from router.contract.notices import Notices, visible_to
from router.contract.relay import MODELS_PATH, RouteRequest
from router.contract.request import JsonObject
from router.contract.sinks import Collected
from router.contract.target import Target, Timeouts
from router.dialects.as_sent import QUERY
from router.dialects.fields import as_object
from router.dialects.messages.request import VERSION
from router.dialects.table import SPECS
from router.edge.admission import Admission
from router.edge.catalogue import Catalogue, OwnLists
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.edge.routes import check_body_headers
from router.house import House
from router.sense.models import ModelNames

_DEFAULT_ENTRIES, _MAX_ENTRIES = 20, 1_000
_OWN_ETAG = 'W/"tandem"'
_PLAN_SECONDS = 4.0
"""Codex waits five."""
_MAX_PLAN_BYTES = 4 << 20


class Models:
    """Lists the models of the current config, and for a client with a plan those of its plan."""

    def __init__(self, house: House, admission: Admission) -> None:
        self._house, self._admission = house, admission
        self._current, self._own_lists = CurrentCatalogue(house), OwnLists()
        self.pages = (Page("/v1/models", self._list), Page("/v1/models/{name:path}", self._find))

    async def _list(self, asked: Asked) -> Answer:
        catalogue, query = self._current(), asked.query
        if self._own_lists.asks(query):
            theirs, etag = await self._ask_plan(asked)
            return as_json(self._own_lists.find(query, catalogue, theirs), headers={"etag": etag})
        limit = query.get("limit", "")
        if limit or VERSION in asked.headers:
            entries = int(limit) if limit.isascii() and limit.isdigit() and len(limit) < 5 else _DEFAULT_ENTRIES
            return as_json(catalogue.anthropic(max(1, min(entries, _MAX_ENTRIES)), query.get("after_id")))
        return as_json(catalogue.openai())

    async def _ask_plan(self, asked: Asked) -> tuple[list[JsonObject], str]:
        """The entries that the caller's plan lists for its login, with their etag. A plan that does not answer lists none."""
        plan, admission = self._house.plan, self._admission
        target = _find_plan(plan.targets.values(), asked) if plan.takes_callers_keys else None
        if target is None:
            return [], _OWN_ETAG
        timeouts = Timeouts(_PLAN_SECONDS, _PLAN_SECONDS, _PLAN_SECONDS)
        request = RouteRequest("GET", f"{MODELS_PATH}?{asked.headers[QUERY]}", (), b"", asked.headers, timeouts)
        admission.take_slot(admission.limits, asked.caller)
        try:
            async with asyncio.timeout(_PLAN_SECONDS):
                answer = await plan.dispatcher.collect_route(target.name, request, _MAX_PLAN_BYTES)
        except TimeoutError:
            return [], _OWN_ETAG
        finally:
            admission.release(asked.caller)
        # The plan's etag is in each of its answers, and Codex asks again where it differs.
        return (entries, answer.fields.get("etag", _OWN_ETAG)) if (entries := _read_entries(answer)) else ([], _OWN_ETAG)

    async def _find(self, asked: Asked) -> Answer:
        catalogue, name = self._current(), asked.path["name"]
        return as_json(catalogue.anthropic_entry(name) if VERSION in asked.headers else catalogue.openai_entry(name))


def _find_plan(targets: Iterable[Target], asked: Asked) -> Target | None:
    """The plan of the caller's login, if its clients read such lists and the caller may use its tier."""
    for target in targets:
        dialects = [dialect for dialect in target.speaks if SPECS[dialect].reads_catalogue]
        may_ask = target.is_plan and target.tier in asked.rights.tiers and dialects
        if may_ask and credential_for(target, asked.headers, dialects[0]) is not None:
            return target
    return None


def _read_entries(answer: Collected) -> list[JsonObject]:
    if answer.status != 200 or answer.error is not None or not answer.has_ended:
        return []
    try:
        told = as_object(orjson.loads(answer.body)).get("models")
    except orjson.JSONDecodeError:
        return []
    return [entry for entry in told if isinstance(entry, dict)] if isinstance(told, list) else []


class CurrentCatalogue:
    """The catalogue of the current plan, built once for each plan and each window that a target names itself."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._models: ModelNames | None = None
        """Those of the plan that was listed: each plan has its own, and the plan itself must not be held."""
        self._windows: Mapping[str, int] = {}
        self._catalogue: Catalogue

    def __call__(self) -> Catalogue:
        plan, live = self._house.plan, self._house.state.live
        if plan.models is not self._models or live.windows is not self._windows:
            targets = {name: live.known(target) for name, target in plan.targets.items()}
            self._models, self._windows = plan.models, live.windows
            self._catalogue = Catalogue(plan.models, targets, plan.window_of_auto)
        return self._catalogue


class NoticesPanel:
    """Lists the troubles that last."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self.pages = (Page("/tandem/notices", self._show),)

    async def _show(self, asked: Asked) -> Answer:
        found = visible_to(asked.caller.name, self._notices(), is_admin=asked.rights.is_admin)
        return as_json({"notices": to_builtins(found)})


RELOAD = "/tandem/reload"
_FAULTY = 422


class Reload:
    """Reloads the config, for an admin. Nobody else's page may ask: admission looks at Origin, and this at the content type."""

    def __init__(self, reload: Callable[[], Awaitable[JsonObject]] | None) -> None:
        self._reload = reload
        self.pages = (Page(RELOAD, self._take, ("POST",), needs_admin=True),)

    async def _take(self, asked: Asked) -> Answer:
        check_body_headers(asked.headers, 0)
        if self._reload is None:
            raise NotFound("this router was not started from a config file, so there is nothing to read again")
        try:
            return as_json(await self._reload())
        except ConfigError as error:
            return as_json(_describe(error, asked.request_id), _FAULTY)


class RevokedWork:
    """Takes the key file at once, for an admin, and answers what was ended with keys that no longer work."""

    def __init__(self, look: Callable[[], Awaitable[JsonObject]] | None) -> None:
        self._look = look
        self.pages = (Page("/tandem/keys", self._take, ("POST",), needs_admin=True),)

    async def _take(self, asked: Asked) -> Answer:
        check_body_headers(asked.headers, 0)
        if self._look is None:
            raise NotFound("callers of this router need no key")
        return as_json({"ended": await self._look()})


def _describe(error: ConfigError, request_id: str) -> JsonObject:
    """Every fault, for a program and as text. Nothing was changed."""
    return {
        "error": {
            "message": f"the config has faults, so nothing was changed. {error}",
            "type": "invalid_request_error",
            "param": None,
            "code": "config_faulty",
            "request_id": request_id,
            "faults": [{"path": fault.place, "problem": fault.problem, "hint": fault.hint} for fault in error.faults],
        }
    }
