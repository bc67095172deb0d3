"""What a writer is told of the target, and what the writers share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from router.contract.request import Json, JsonObject
from router.contract.target import Target
from router.contract.words import Feature
from router.dialects.hosts import ORDINARY, Quirks
from router.dialects.translate.draft import Draft, Mark

_LEAST_ROOM = 16
_MAX_USER = 64
_OWN_MARK: JsonObject = {"type": "ephemeral"}
DEFAULT_EFFORTS: Mapping[str, str] = {"ultra": "max"}
"""Words for effort that only one client knows."""


@dataclass(frozen=True, slots=True)
class WriteContext:
    """Where a draft goes: the target, its model's name there, and how its host differs."""

    target: Target
    model: str
    quirks: Quirks = ORDINARY
    efforts: Mapping[str, str] = field(default_factory=dict)
    """The config's own words for effort, by the caller's."""
    prompt_tokens: int = 0
    caches_when_asked: bool = False
    """Whether the target keeps the prompt for the next request only up to a mark."""

    def effort(self, draft: Draft, defaults: Mapping[str, str] = DEFAULT_EFFORTS) -> str | None:
        """The caller's effort in the target's word for it; None when there is none, or none is taken."""
        if draft.effort is None:
            return None
        if Feature.REASONING not in self.target.accepts:
            draft.drop("reasoning effort")
            return None
        words = self.quirks.efforts
        return self.efforts.get(draft.effort) or words.get(draft.effort) or defaults.get(draft.effort) or draft.effort

    def finish(self, body: JsonObject, draft: Draft) -> JsonObject:
        """Take out what the host refuses, and what was not said."""
        for name in self.quirks.refuses & body.keys():
            if body.pop(name) is not None:
                draft.drop(name)
        return {name: value for name, value in body.items() if value is not None}

    def limit(self, draft: Draft, default: int | None = None, least: int = 1) -> int | None:
        """The most tokens of the answer: what the caller said, within what the window leaves next to the prompt."""
        asked = draft.max_tokens or default
        if asked is None:
            return None
        room = max(_LEAST_ROOM, self.target.window_tokens - self.prompt_tokens)
        taken = max(least, min(asked, room))
        if taken != asked and draft.max_tokens:
            draft.drop(f"max_tokens {'lowered' if taken < asked else 'raised'} to {taken}")
        return taken

    def user(self, draft: Draft) -> str | None:
        """Who asks, for a host that takes it. Too long a name is hashed: the host only tells one from another."""
        if draft.user is None:
            return None
        if not self.quirks.takes_openai_fields:
            draft.drop("safety_identifier")
            return None
        return draft.user if len(draft.user) <= _MAX_USER else blake2b(draft.user.encode(), digest_size=32).hexdigest()

    def end_mark(self, draft: Draft) -> Mark:
        """What asks the target to keep the whole prompt for the next request: the caller's own, or ours where it has no word.

        Only for a target that keeps nothing unasked: the others need no mark, and some of them refuse one.
        """
        if not self.caches_when_asked:
            return None
        return draft.end_mark or (None if draft.marks_itself else _OWN_MARK)

    def service_tier(self, draft: Draft) -> str | None:
        """The tier of service, which has a meaning at one host alone."""
        if draft.service_tier is not None and not self.quirks.takes_openai_fields:
            draft.drop("service_tier")
            return None
        return draft.service_tier


def marked_error(text: str, *, is_error: bool) -> str:
    """A tool's words, with the mark that a dialect without a place for it lacks."""
    return f"Error: {text}" if is_error and not text.lower().startswith("error") else text


def marked(block: JsonObject, mark: Mark) -> JsonObject:
    return block if mark is None else {**block, "cache_control": mark}


def optional(value: Json) -> Json:
    return value or None
