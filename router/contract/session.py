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

from router.contract.signals import SessionPosition, Turn
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
    ask: float | None = None
    """The log-odds of a long task of the last ask, which "yes" and "go on" take."""
    is_planned: bool = False
    """Whether that ask wanted a plan."""
    override: Tier | None = None
    has_override: bool = False
    """Whether somebody asked for a tier for the session, be it "auto": then `override` is None."""
    override_at: int = 0
    """The message with which the override was set: what was asked for in a later one is newer."""
    override_line: str = ""
    """The mark of the newest first line that was known then: that one is not newer, wherever it is now."""
    override_messages: int = 0
    """How long the conversation was then."""
    asked_in: str = ""
    """The mark of that conversation, for a session without a name of its own: what branches off after it has the wish too."""
    line_after: str = ""
    """The mark of what the message with the line followed: another message there means that the line was edited away."""
    said: str = ""
    """The mark of what was answered then, for a session without a name of its own; empty as long as it is not known."""
    name: str = ""
    """The exact model name of the person's last turn; empty for "auto", and for names that are no wish."""
    name_at: int = -1
    """The message with which that name came; -1 where the session began with it."""
    messages: int = 0
    """How long the conversation was when it was last answered."""
    last: str = ""
    warm: Mapping[str, tuple[int, float]] = {}
    """By target: how many tokens it has warm, and until when."""
    origins: Mapping[str, str] = {}

    def with_override(
        self,
        override: Tier | None,
        place: int,
        line: str,
        messages: int,
        *,
        at: float,
        asked_in: str = "",
        line_after: str = "",
    ) -> "SessionState":
        """Somebody asked for a tier for the whole session, or took that back, in the message at this place."""
        return replace(
            self,
            at=at,
            override=override,
            has_override=True,
            override_at=place,
            override_line=line,
            override_messages=messages,
            asked_in=asked_in,
            line_after=line_after,
            said="",
        )

    def without_override(self) -> "SessionState":
        """The line that asked for a tier is no longer in the conversation."""
        return replace(self, override=None, has_override=False, override_at=0, override_line="", line_after="")

    def branch(self) -> "SessionState":
        """A conversation that goes on otherwise, after the request that set the override: only the wishes are the same."""
        return SessionState(
            override=self.override,
            has_override=True,
            override_at=self.override_at,
            override_line=self.override_line,
            override_messages=self.override_messages,
            asked_in=self.asked_in,
            said=self.said,
            name=self.name,
            name_at=self.name_at,
        )

    def with_said(self, said: str) -> "SessionState":
        """What was answered to the request that set the override."""
        return replace(self, said=said)

    def with_name(self, name: str, place: int) -> "SessionState":
        """The person's turn came with this model name. One that changed is newer than what was asked for before."""
        older = min(self.override_at, place - 1) if place >= 0 else self.override_at
        return replace(self, name=name, name_at=place, override_at=older)

    def with_turn(
        self,
        turn: str,
        tier: Tier,
        *,
        has_escalated: bool,
        was_asked_for: bool,
        effort: str | None,
        ask: float | None,
        is_planned: bool,
    ) -> "SessionState":
        """A turn of the person, or its next call, goes to a tier."""
        return replace(
            self,
            turn=turn,
            tier=tier,
            has_escalated=has_escalated,
            was_asked_for=was_asked_for,
            effort=self.effort or effort,
            ask=ask,
            is_planned=is_planned,
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
    replaces: SessionState | None = None
    """Another session that began alike, and whose slot this one takes."""
    override: Tier | None = None
    """The tier that was asked for, for the whole session, where no newer wish counts."""
    is_edited: bool = False
    """Whether the line that set the session's tier was edited away."""
    heeds_line: bool = False
    """Whether a first line that asks for a tier counts: something newer may have been asked for."""
    heeds_name: bool = True
    """Whether the model's exact name counts."""
    newest: int = 0
    """The place of the person's newest message, where somebody asked for something."""
    name: tuple[str, int] | None = None
    """The model's exact name and the place from which it counts, where that is to be remembered."""
    session: str = ""
    """The session's name where the request could not tell it: a lost thread that was sent again whole."""

    def annotate(self, turn: Turn) -> Turn:
        """The turn with what is known of its session."""
        return replace(
            turn,
            session=self.session or turn.session,
            position=self.position,
            session_override=self.override,
            heeds_line=self.heeds_line,
            heeds_name=self.heeds_name,
        )


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
        if "has_override" not in values:
            state = replace(state, has_override=state.override is not None)
        tier, override = [None if name is None else Tier(name) for name in (state.tier, state.override)]
    except (orjson.JSONDecodeError, TypeError, ValueError, AttributeError):
        return None
    return replace(state, warm=warm, tier=tier, override=override)
