"""What is remembered of one session: a frozen value, and the pure steps by which a request changes it.

Two requests of a session may be in flight at once (a client's title request and the first ask). Each step is taken on the state
as it then is, and changes only what its own request has to say, so either order leaves the same.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from router.contract.caller import SessionKey
from router.contract.signals import SessionPosition, Turn
from router.contract.words import Tier

_MAX_ORIGINS = 600
NOBODY = "-"
"""The maker of state that was refused by the very target that was said to have made it."""


class Wish(Struct, frozen=True):
    """A tier that somebody asked for, for the whole session, by header or by a first line. None is "auto"."""

    tier: Tier | None
    at: int
    """The index of the message that it came with: what is asked for in a later one is newer."""
    line: str = ""
    """The mark of the newest first line known then: that one is not newer, even where a shorter history moves it."""
    follows: str = ""
    """Of a wish by a line: the mark of what its message followed. Another message there means that the line was edited away."""


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
    wish: Wish | None = None
    """What somebody asked for, for the whole session. Only a session that its client names has one."""
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

    def with_wish(self, wish: Wish | None, *, at: float) -> "SessionState":
        """Somebody asked for a tier for the whole session; None where the line that did was edited away."""
        return replace(self, at=at, wish=wish)

    def with_name(self, name: str, index: int) -> "SessionState":
        """The person's turn came with this model name. A name that changed is newer than what was asked for before."""
        wish = self.wish
        if wish is not None and 0 <= index <= wish.at:
            wish = replace(wish, at=index - 1)
        return replace(self, name=name, name_at=index, wish=wish)

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


class SessionSnapshot(Struct, frozen=True):
    """A session as one request finds it. What the request changes is changed in the session as it then is."""

    key: SessionKey
    state: SessionState
    position: SessionPosition
    origins: Mapping[str, str]
    """Who made the hidden state in the request, by its key."""
    messages: int
    """How long the request's conversation is."""
    replaces: SessionState | None = None
    """Another session that began alike, and whose slot this one takes."""
    session: str = ""
    """The session's name where the request could not tell it: a lost thread that was sent again whole."""
    override: Tier | None = None
    """The tier that was asked for, for the whole session, where no newer wish counts."""
    is_edited: bool = False
    """Whether the line that set the session's tier was edited away."""
    has_wishes: bool = False
    """Whether anybody asked for anything in the session: then it is to be remembered."""
    heeds_line: bool = False
    """Whether a first line that asks for a tier counts: something newer may have been asked for."""
    heeds_name: bool = True
    """Whether the model's exact name counts."""
    newest: int = 0
    """The index of the person's newest message, where somebody asked for something."""
    name: tuple[str, int] | None = None
    """The model's exact name and the index from which it counts, where that is to be remembered."""

    def annotate(self, turn: Turn) -> Turn:
        """The turn with what is known of its session."""
        if not self.has_wishes and not self.session:
            return replace(turn, position=self.position)
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


write_state = msgspec.json.Encoder().encode
"""A state for a store."""


class _Before(Struct, frozen=True):
    """A wish as it was stored until 0.3.0. `asked_in` is empty in a session that its client names."""

    override: Tier | None
    override_at: int
    override_line: str
    line_after: str
    asked_in: str


def read_state(stored: bytes) -> SessionState | None:
    """A state from a store; None where it is not one. Other fields of other versions are ignored."""
    try:
        state = msgspec.json.decode(stored, type=SessionState)
        if b'"has_override":true' in stored:
            tier, *rest, asked_in = msgspec.structs.astuple(msgspec.json.decode(stored, type=_Before))
            state = state if asked_in else replace(state, wish=Wish(tier, *rest))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return state
