"""`GET /v1/models` in OpenAI's shape, Anthropic's, or a client's own."""

import contextlib
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import orjson

from router.config.folders import NoHome, state_folder
from router.contract.errors import UnknownModel
from router.contract.request import Json, JsonObject
from router.contract.target import Target
from router.contract.words import Feature, Tier
from router.dialects.table import SPECS
from router.sense.models import ModelNames
from router.sessions.clients import MODEL_LISTS
from router.sessions.clients.client import ListedModel

_CREATED = 1_770_854_400
_CREATED_ISO = "2026-02-12T00:00:00Z"
TITLES = {
    "auto": ("Tandem auto", "Each turn goes to the tier that gets you finished sooner."),
    "fast": ("Tandem fast", "Quick edits."),
    "deep": ("Tandem deep", "Long tasks."),
}


class Catalogue:
    """The models on offer and their context windows. `auto` may show the fast tier's."""

    def __init__(self, models: ModelNames, targets: Mapping[str, Target], window_of_auto: Tier = Tier.DEEP) -> None:
        self._models, self._targets, self._window_of_auto = models, targets, window_of_auto

    def lists(self, name: str) -> bool:
        return name in self._models.listed()

    def means_auto(self, name: str) -> bool:
        """Whether a name leaves the choice of tier to the router."""
        try:
            alias = self._models.resolve(name)
        except UnknownModel:
            return False
        return alias.tier is None and alias.target is None

    def window(self, name: str) -> int:
        """The largest context window among the targets of a name."""
        alias = self._models.resolve(name)
        if alias.target is not None:
            return self._targets[alias.target].window_tokens
        tiers = (alias.tier,) if alias.tier is not None else self._tiers_of_auto()
        return max(target.window_tokens for target in self._targets.values() if target.tier in tiers)

    def _tiers_of_auto(self) -> tuple[Tier, ...]:
        has_fast = any(target.tier is Tier.FAST for target in self._targets.values())
        return (Tier.FAST,) if self._window_of_auto is Tier.FAST and has_fast else tuple(Tier)

    def openai(self) -> JsonObject:
        """For OpenAI SDKs and most others."""
        return {"object": "list", "data": [self.openai_entry(name) for name in self._models.listed()]}

    def openai_entry(self, name: str) -> JsonObject:
        """Raises `UnknownModel`."""
        return {
            "id": name,
            "object": "model",
            "created": _CREATED,
            "owned_by": "tandem",
            "context_window": self.window(name),
        }

    def anthropic(self, limit: int, after: str | None = None) -> JsonObject:
        """A page for Anthropic SDKs."""
        listed = self._models.listed()
        names = listed[listed.index(after) + 1 :] if after in listed else listed
        shown = names[:limit]
        data: list[Json] = [self.anthropic_entry(name) for name in shown]
        return {
            "data": data,
            "has_more": len(names) > limit,
            "first_id": shown[0] if shown else None,
            "last_id": shown[-1] if shown else None,
        }

    def anthropic_entry(self, name: str) -> JsonObject:
        """Raises `UnknownModel`."""
        return {
            "type": "model",
            "id": name,
            "display_name": TITLES.get(name, (name, ""))[0],
            "created_at": _CREATED_ISO,
            "lifecycle": "active",
            "max_input_tokens": self.window(name),
        }

    def tiers(self) -> list[ListedModel]:
        """`auto` and the tiers, where listed."""
        return [self._tier(name) for name in TITLES if self.lists(name)]

    def _tier(self, name: str) -> ListedModel:
        tiers = tuple(Tier) if name == "auto" else (Tier(name),)
        targets = [target for target in self._targets.values() if target.tier in tiers]
        takes_free_form = all(map(_takes_free_form, targets))
        is_narrowed = name == "auto" and self._window_of_auto is Tier.FAST
        return ListedModel(name, *TITLES[name], self.window(name), takes_free_form, is_narrowed, all(map(_is_native, targets)))


class OwnLists:
    """Model lists in a client's own shape."""

    def __init__(self) -> None:
        self._lists = [(shape, StoredEntries(shape.stored)) for shape in MODEL_LISTS]

    def find(self, query: Container[str], catalogue: Catalogue, theirs: Sequence[JsonObject] = ()) -> JsonObject | None:
        """The list that the query asks for, with the entries of the caller's plan; None for the standard one."""
        for shape, stored in self._lists:
            if shape.asked_by in query:
                return shape.write(stored(), catalogue.tiers(), theirs)
        return None

    def asks(self, query: Container[str]) -> bool:
        return any(shape.asked_by in query for shape, _ in self._lists)


class StoredEntries:
    """A client's entries stored by `tandem connect`, reread when the file changes."""

    def __init__(self, stored: Path) -> None:
        self._stored = stored
        self._stamp: tuple[int, int] | None = None
        self._entries: dict[str, JsonObject] = {}

    def __call__(self) -> dict[str, JsonObject]:
        """By our model names; empty if missing or unreadable."""
        with contextlib.suppress(OSError, NoHome, orjson.JSONDecodeError):
            path = state_folder() / self._stored
            now = path.stat()
            if self._stamp != (now.st_mtime_ns, now.st_ino):
                told = orjson.loads(path.read_bytes())
                self._entries = {name: entry for name, entry in told.items() if isinstance(entry, dict)}
                self._stamp = (now.st_mtime_ns, now.st_ino)
            return self._entries
        return {}


def _takes_free_form(target: Target) -> bool:
    """A bridge turns a free-form tool into a function."""
    return (Feature.CUSTOM_TOOLS if _is_native(target) else Feature.TOOLS) in target.accepts


def _is_native(target: Target) -> bool:
    """Whether no bridge is needed for clients that read such a list."""
    return any(SPECS[dialect].reads_catalogue for dialect in target.speaks)
