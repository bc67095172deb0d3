"""`GET /v1/models` in the three shapes that clients ask for."""

from collections.abc import Mapping

from router.contract.errors import UnknownModel
from router.contract.request import Json, JsonObject
from router.contract.room import reserve_tokens
from router.contract.target import Target
from router.contract.words import Feature, Tier
from router.dialects.table import SPECS
from router.edge.codex_models import write_entry
from router.sense.models import ModelNames

_CREATED = 1_770_854_400
_CREATED_ISO = "2026-02-12T00:00:00Z"
TITLES = {
    "auto": ("Tandem auto", "Each turn goes to the tier that gets you finished sooner."),
    "fast": ("Tandem fast", "Quick edits."),
    "deep": ("Tandem deep", "Long tasks."),
}


class Catalogue:
    """The models that a caller may ask for, and how large their windows are. That of `auto` may be the fast tier's."""

    def __init__(self, models: ModelNames, targets: Mapping[str, Target], window_of_auto: Tier = Tier.DEEP) -> None:
        self._models, self._targets, self._window_of_auto = models, targets, window_of_auto

    def lists(self, name: str) -> bool:
        """Whether callers are told of a name."""
        return name in self._models.listed()

    def means_auto(self, name: str) -> bool:
        """Whether a name leaves the choice of the tier to us."""
        try:
            alias = self._models.resolve(name)
        except UnknownModel:
            return False
        return alias.tier is None and alias.target is None

    def window(self, name: str) -> int:
        """The largest context window of the targets that a name may lead to."""
        alias = self._models.resolve(name)
        if alias.target is not None:
            return self._targets[alias.target].window_tokens
        tiers = (alias.tier,) if alias.tier is not None else self._tiers_of_auto()
        return max(target.window_tokens for target in self._targets.values() if target.tier in tiers)

    def _tiers_of_auto(self) -> tuple[Tier, ...]:
        """The tiers whose windows count for `auto`."""
        has_fast = any(target.tier is Tier.FAST for target in self._targets.values())
        return (Tier.FAST,) if self._window_of_auto is Tier.FAST and has_fast else tuple(Tier)

    def openai(self) -> JsonObject:
        """For OpenAI SDKs and most others."""
        return {"object": "list", "data": [self._openai_entry(name) for name in self._models.listed()]}

    def openai_entry(self, name: str) -> JsonObject:
        """One model; raises `UnknownModel`."""
        self._models.resolve(name)
        return self._openai_entry(name)

    def _openai_entry(self, name: str) -> JsonObject:
        return {
            "id": name,
            "object": "model",
            "created": _CREATED,
            "owned_by": "tandem",
            "context_window": self.window(name),
        }

    def anthropic(self, limit: int, after: str | None = None) -> JsonObject:
        """For Claude Code and Anthropic SDKs, a page at a time."""
        listed = self._models.listed()
        names = listed[listed.index(after) + 1 :] if after in listed else listed
        shown = names[:limit]
        data: list[Json] = [self._anthropic_entry(name) for name in shown]
        return {
            "data": data,
            "has_more": len(names) > limit,
            "first_id": shown[0] if shown else None,
            "last_id": shown[-1] if shown else None,
        }

    def anthropic_entry(self, name: str) -> JsonObject:
        """One model; raises `UnknownModel`."""
        self._models.resolve(name)
        return self._anthropic_entry(name)

    def _anthropic_entry(self, name: str) -> JsonObject:
        return {
            "type": "model",
            "id": name,
            "display_name": TITLES.get(name, (name, ""))[0],
            "created_at": _CREATED_ISO,
            "lifecycle": "active",
            "max_input_tokens": self.window(name),
        }

    def codex(self, known: Mapping[str, JsonObject]) -> JsonObject:
        """For Codex: the metadata without which it drops `apply_patch`, guesses the window and sends no effort.

        `known` is what Codex itself says of the models behind our names. A name without it is left out.
        """
        entries: list[Json] = [*self.codex_entries(known)]
        return {"models": entries}

    def codex_entries(self, known: Mapping[str, JsonObject]) -> list[JsonObject]:
        """The same as a list."""
        names = [name for name in TITLES if self.lists(name) and name in known]
        return [self._codex_entry(name, known[name], place) for place, name in enumerate(names)]

    def _codex_entry(self, name: str, known: JsonObject, place: int) -> JsonObject:
        tiers = tuple(Tier) if name == "auto" else (Tier(name),)
        targets = [target for target in self._targets.values() if target.tier in tiers]
        takes_patches = all(_takes_patches(target) for target in targets)
        entry = write_entry(known, *TITLES[name], name, window=self.window(name), takes_patches=takes_patches)
        if name == "auto" and self._window_of_auto is Tier.FAST:
            entry["auto_compact_token_limit"] = _compaction_limit(self.window(name))
        return {**entry, "priority": place + 1}


def _compaction_limit(window: int) -> int:
    """Where Codex compacts so that fast can still take the next turn: at nine tenths, or earlier in a small window.

    What is kept free for the answer is left, and a quarter of that for what is typed next.
    """
    return min(window * 9 // 10, window - reserve_tokens(window) * 5 // 4)


def _takes_patches(target: Target) -> bool:
    """Whether a free-form tool can be called there: over a bridge it becomes a function."""
    if any(SPECS[dialect].reads_catalogue for dialect in target.speaks):
        return Feature.CUSTOM_TOOLS in target.accepts
    return Feature.TOOLS in target.accepts
