"""What writers know of the target, and what they share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from router.contract.request import Json, JsonObject
from router.contract.target import Target
from router.contract.words import Feature
from router.dialects.cap import Cap
from router.dialects.hosts import ORDINARY, Quirks
from router.dialects.translate.draft import Draft, Mark

_LEAST_ROOM = 16
_MAX_USER = 64
_OWN_MARK: JsonObject = {"type": "ephemeral"}
DEFAULT_EFFORTS: Mapping[str, str] = {"ultra": "max"}
"""Efforts that only one client knows."""


@dataclass(frozen=True, slots=True)
class WriteContext:
    target: Target
    model: str
    quirks: Quirks = ORDINARY
    efforts: Mapping[str, str] = field(default_factory=dict)
    prompt_tokens: int = 0
    caches_when_asked: bool = False
    cap: Cap | None = None

    def effort(self, draft: Draft, defaults: Mapping[str, str] = DEFAULT_EFFORTS) -> str | None:
        """The caller's effort under the target's name; None if absent or not accepted."""
        if draft.effort is None:
            return None
        if Feature.REASONING not in self.target.accepts:
            draft.drop("reasoning effort")
            return None
        words = self.quirks.efforts
        return self.efforts.get(draft.effort) or words.get(draft.effort) or defaults.get(draft.effort) or draft.effort

    def finish(self, body: JsonObject, draft: Draft) -> JsonObject:
        for name in self.quirks.refuses & body.keys():
            if body.pop(name) is not None:
                draft.drop(name)
        return {name: value for name, value in body.items() if value is not None}

    def limit(self, draft: Draft, default: int | None = None, least: int = 1) -> int | None:
        """The answer's token limit: the caller's, within the room that the prompt leaves in the window."""
        asked = draft.max_tokens or default
        if self.cap is not None:
            asked = self.cap.tokens
            draft.drop(*self.cap.words)
        if asked is None:
            return None
        room = max(_LEAST_ROOM, self.target.window_tokens - self.prompt_tokens)
        taken = max(least, min(asked, room))
        if taken != asked and draft.max_tokens:
            draft.drop(f"max_tokens {'lowered' if taken < asked else 'raised'} to {taken}")
        return taken

    def user(self, draft: Draft) -> str | None:
        """The end user's id, if the host takes it. Long ids are hashed."""
        if draft.user is None:
            return None
        if not self.quirks.takes_openai_fields:
            draft.drop("safety_identifier")
            return None
        return draft.user if len(draft.user) <= _MAX_USER else blake2b(draft.user.encode(), digest_size=32).hexdigest()

    def end_mark(self, draft: Draft) -> Mark:
        """The cache mark for the end of the prompt: the caller's, or ours if its dialect has none.

        Only for targets that cache nothing otherwise: some of the others refuse it.
        """
        if not self.caches_when_asked:
            return None
        return draft.end_mark or (None if draft.marks_itself else _OWN_MARK)

    def service_tier(self, draft: Draft) -> str | None:
        """The service tier, which only OpenAI's hosts define."""
        if draft.service_tier is not None and not self.quirks.takes_openai_fields:
            draft.drop("service_tier")
            return None
        return draft.service_tier


def marked_error(text: str, *, is_error: bool) -> str:
    """A tool's output, prefixed where the dialect has no error flag."""
    return f"Error: {text}" if is_error and not text.lower().startswith("error") else text


def marked(block: JsonObject, mark: Mark) -> JsonObject:
    return block if mark is None else {**block, "cache_control": mark}


def optional(value: Json) -> Json:
    return value or None
