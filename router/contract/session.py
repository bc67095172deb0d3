"""What is remembered of one session: a frozen value, and the pure steps by which a request changes it.

Two requests of a session may be in flight at once (a client's title request and the first ask). Each step is taken on the state
as it then is, and changes only what its own request has to say, so either order leaves the same.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contract.signals import SessionPosition
from router.contract.words import Tier

_MAX_ORIGINS = 600
NOBODY = "-"
"""The maker of state that was refused by the very target that was said to have made it."""


class SessionState(Struct, frozen=True):
    """One session. No text: fingerprints, tiers, counts and times."""

    at: float = 0.0
    tier: Tier | None = None
    target: str | None = None
    turn: str = ""
    has_escalated: bool = False
    was_asked_for: bool = False
    """Whether somebody asked for the running turn's tier."""
    effort: str | None = None
    """The reasoning effort of the session's first turn."""
    override: Tier | None = None
    override_at: int = 0
    """How long the conversation was when the override was set: a line further down is newer."""
    messages: int = 0
    """How long the conversation was when it was last answered."""
    last: str = ""
    warm: Mapping[str, tuple[int, float]] = {}
    """By target: how many tokens it has warm, and until when."""
    origins: Mapping[str, str] = {}

    def with_override(self, override: Tier | None, messages: int, *, at: float) -> "SessionState":
        """Somebody asked for a tier for the whole session, or took that back."""
        return replace(self, at=at, override=override, override_at=messages)

    def with_turn(
        self, turn: str, tier: Tier, *, has_escalated: bool, was_asked_for: bool, effort: str | None
    ) -> "SessionState":
        """A turn of the person, or its next call, goes to a tier."""
        return replace(
            self,
            turn=turn,
            tier=tier,
            has_escalated=has_escalated,
            was_asked_for=was_asked_for,
            effort=self.effort or effort,
        )

    def with_answer(
        self, target: str, messages: int, origins: Mapping[str, str], last: str | None, *, at: float
    ) -> "SessionState":
        """A target begins to answer: what is new in the next request is its own."""
        return replace(
            self,
            at=at,
            target=target,
            messages=messages,
            origins=_newest({**self.origins, **origins, **self.origins}) if origins or self.origins else {},
            last=self.last if last is None else last,
        )

    def with_warm(self, target: str, tokens: int, until: float, *, is_shorter: bool, at: float) -> "SessionState":
        """A target has the conversation warm. One that became shorter is another prefix: nothing else of it is."""
        return replace(self, at=at, warm={**({} if is_shorter else self.warm), target: (tokens, until)})

    def with_origins(self, origins: Mapping[str, str], *, at: float) -> "SessionState":
        """Who made what, as it turned out."""
        return replace(self, at=at, origins=_newest({**self.origins, **origins}))

    def write(self) -> bytes:
        """The state for a store."""
        return msgspec.json.encode(self)


class SessionSnapshot(Struct, frozen=True):
    """A session as one request finds it. What the request changes is changed in the session as it then is."""

    key: str
    state: SessionState
    position: SessionPosition
    origins: Mapping[str, str]
    """Who made the hidden state in the request, by its key."""
    messages: int
    """How long the request's conversation is."""
    heeds_line: bool = False
    """Whether a first line that asks for a tier counts: one that is older than the session's override does not."""
    replaces: SessionState | None = None
    """Another session that began alike, and whose slot this one takes."""

    @property
    def override(self) -> Tier | None:
        """The tier that was asked for, for the whole session."""
        return self.state.override


def _newest(origins: Mapping[str, str]) -> Mapping[str, str]:
    return origins if len(origins) <= _MAX_ORIGINS else dict(list(origins.items())[-_MAX_ORIGINS:])


_NEW = SessionState()


def read_state(stored: bytes) -> SessionState | None:
    """A state out of a store; None where it is not one."""
    try:
        values: dict[str, Any] = orjson.loads(stored)
        for name, before in (("messages", "count"), ("origins", "makers"), ("override", "wish"), ("override_at", "wish_at")):
            values.setdefault(name, values.get(before, getattr(_NEW, name)))  # as it was called before
        state = SessionState(**{name: values[name] for name in SessionState.__struct_fields__ if name in values})
        warm = {name: (int(tokens), float(until)) for name, (tokens, until) in state.warm.items()}
        tier, override = [None if name is None else Tier(name) for name in (state.tier, state.override)]
    except (orjson.JSONDecodeError, TypeError, ValueError, AttributeError):
        return None
    return replace(state, warm=warm, tier=tier, override=override)
