"""What a writer is told of the target, and what the writers share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.contract.errors import Misfit
from router.contract.request import Json, JsonObject
from router.contract.target import Target
from router.contract.words import Feature
from router.dialects.bridge.draft import Draft
from router.dialects.bridge.quirks import ORDINARY, Quirks

DEFAULT_EFFORTS: Mapping[str, str] = {"ultra": "max"}
"""Words for effort that only one client knows."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Where a draft goes: the target, its model's name there, and how its host differs."""

    target: Target
    model: str
    quirks: Quirks = ORDINARY
    efforts: Mapping[str, str] = field(default_factory=dict)
    """The config's own words for effort, by the caller's."""

    def effort(self, draft: Draft, defaults: Mapping[str, str] = DEFAULT_EFFORTS) -> str | None:
        """The caller's effort in the target's word for it; None when there is none, or none is taken."""
        if draft.effort is None:
            return None
        if Feature.REASONING not in self.target.accepts:
            draft.drop("reasoning effort")
            return None
        return self.efforts.get(draft.effort) or defaults.get(draft.effort) or draft.effort

    def finish(self, body: JsonObject, draft: Draft) -> JsonObject:
        """Take out what the host refuses, and what was not said."""
        for name in self.quirks.refuses & body.keys():
            if body.pop(name) is not None:
                draft.drop(name)
        return {name: value for name, value in body.items() if value is not None}

    def check_choice(self, draft: Draft) -> None:
        """A tool that must be called and cannot be forced would change what the request means."""
        if draft.choice is not None and draft.choice.mode in ("any", "one") and not self.quirks.forces_tools:
            raise Misfit(f'target "{self.target.name}" cannot be made to call a tool', param="tool_choice")


def marked_error(text: str, *, is_error: bool) -> str:
    """A tool's words, with the mark that a dialect without a place for it lacks."""
    return f"Error: {text}" if is_error and not text.lower().startswith("error") else text


def optional(value: Json) -> Json:
    """The value, or None when it is empty."""
    return value or None
