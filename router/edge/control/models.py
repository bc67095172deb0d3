"""The list of models, in the shape that the client expects."""

from collections.abc import Mapping

from router.dialects.messages.request import VERSION
from router.edge.catalogue import Catalogue, OwnLists
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.house import House
from router.sense.models import ModelNames

_DEFAULT_ENTRIES, _MAX_ENTRIES = 20, 1_000


class Models:
    """Lists the models of the current plan."""

    def __init__(self, house: House) -> None:
        self._current, self._own_lists = CurrentCatalogue(house), OwnLists()
        self.pages = (Page("/v1/models", self._list), Page("/v1/models/{name:path}", self._find))

    async def _list(self, asked: Asked) -> Answer:
        catalogue, query = self._current(), asked.query
        if (own := self._own_lists.find(query, catalogue)) is not None:
            return as_json(own, headers={"etag": 'W/"tandem"'})
        limit = query.get("limit", "")
        if limit or VERSION in asked.headers:
            entries = int(limit) if limit.isascii() and limit.isdigit() and len(limit) < 5 else _DEFAULT_ENTRIES
            return as_json(catalogue.anthropic(max(1, min(entries, _MAX_ENTRIES)), query.get("after_id")))
        return as_json(catalogue.openai())

    async def _find(self, asked: Asked) -> Answer:
        catalogue, name = self._current(), asked.path["name"]
        return as_json(catalogue.anthropic_entry(name) if VERSION in asked.headers else catalogue.openai_entry(name))


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
