"""What is remembered of a session: a frozen value, and the pure steps by which requests change it.

Two requests may be in flight at once (a title request and the first ask). A step changes only its own part of the state of that
moment, so their order does not matter.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from router.contract.caller import SessionKey
from router.contract.request import RequestView
from router.contract.signals import SessionPosition, Turn
from router.contract.words import Tier

_MAX_ORIGINS = 600
NOBODY = "-"
"""Origin of state that its supposed maker refused."""


class Wish(Struct, frozen=True):
    """A tier for the whole session; None is "auto"."""

    tier: Tier | None
    at: int
    """Index of its message: later ones are newer."""
    line: str = ""
    """Mark of the newest first line known then: it is not newer, even where a shorter history moves it."""
    follows: str = ""
    """Mark of what a line's message followed. Another message there means that the line was edited away."""


class SessionState(Struct, frozen=True):
    """Fingerprints, tiers, counts and times; no text."""

    at: float = 0.0
    tier: Tier | None = None
    target: str | None = None
    turn: str = ""
    has_escalated: bool = False
    was_asked_for: bool = False
    effort: str | None = None
    """Reasoning effort of the first turn."""
    ask: float | None = None
    """Log-odds of the last ask, which "yes" and "go on" inherit."""
    is_planned: bool = False
    combine: str = ""
    """See `SessionPosition.combine`."""
    objected: str = ""
    """Mark of the last answer that ended with deep's objections."""
    wish: Wish | None = None
    """Only for a session that its client names."""
    name: str = ""
    """Exact model name of the person's last turn; empty if it is no wish."""
    name_at: int = -1
    """Index of the message that brought it; -1 from the start."""
    messages: int = 0
    """Length of the conversation at the last answer."""
    last: str = ""
    warm: Mapping[str, tuple[int, float]] = {}
    """By target: tokens, and until when."""
    origins: Mapping[str, str] = {}

    def with_wish(self, wish: Wish | None, *, at: float) -> "SessionState":
        """Set the wish; None if its line was edited away."""
        return replace(self, at=at, wish=wish)

    def with_name(self, name: str, index: int) -> "SessionState":
        """A changed name is newer than an earlier wish."""
        wish = self.wish
        if wish is not None and 0 <= index <= wish.at:
            wish = replace(wish, at=index - 1)
        return replace(self, name=name, name_at=index, wish=wish)

    def with_answer(
        self, target: str, messages: int, origins: Mapping[str, str], last: str | None, *, at: float
    ) -> "SessionState":
        """A target begins to answer: items new in the next request are its own."""
        return replace(
            self,
            at=at,
            target=target,
            messages=messages,
            origins=_newest({**self.origins, **origins, **self.origins}) if origins or self.origins else {},
            last=self.last if last is None else last,
        )

    def with_warm(self, target: str, tokens: int, until: float, *, is_shorter: bool, at: float) -> "SessionState":
        """A shorter conversation is another prefix: nothing else of it is warm."""
        return replace(self, at=at, warm={**({} if is_shorter else self.warm), target: (tokens, until)})

    @property
    def has_objections(self) -> bool:
        """Whether the session's newest answer ended with deep's objections."""
        return bool(self.objected) and self.objected == self._answered

    def with_objections(self, messages: int) -> "SessionState":
        """Deep objected to the answer after this many messages. A newer answer is another one."""
        return replace(self, objected=self._answered) if messages == self.messages else self

    @property
    def _answered(self) -> str:
        return f"{self.turn} {self.messages}"

    def with_origins(self, origins: Mapping[str, str], *, at: float) -> "SessionState":
        return replace(self, at=at, origins=_newest({**self.origins, **origins}))


class SessionSnapshot(Struct, frozen=True):
    """A session as one request finds it."""

    key: SessionKey
    state: SessionState
    position: SessionPosition
    origins: Mapping[str, str]
    """Makers of the request's hidden state, by key."""
    messages: int
    replaces: SessionState | None = None
    """A session with an equal beginning, whose slot this one takes."""
    session: str = ""
    """The session's name, if the request could not tell it: a lost thread that was sent again whole."""
    override: Tier | None = None
    """The session's tier, unless a newer wish counts."""
    is_edited: bool = False
    """The line that set the tier was edited away."""
    has_wishes: bool = False
    heeds_line: bool = False
    """Whether a first line counts: a newer wish may replace it."""
    heeds_name: bool = True
    newest: int = 0
    """Index of the person's newest message, where there are wishes."""
    name: tuple[str, int] | None = None
    """The exact model name to remember, and the index from which it counts."""

    def annotate(self, turn: Turn, _: RequestView) -> Turn:
        """The turn with its place in the session."""
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


class _Before(Struct, frozen=True):
    """A wish as stored until 0.3.0. `asked_in` is empty in a session that its client names."""

    override: Tier | None
    override_at: int
    override_line: str
    line_after: str
    asked_in: str


def read_state(stored: bytes) -> SessionState | None:
    """Read a stored state; None if it is invalid. Unknown fields are ignored."""
    try:
        state = msgspec.json.decode(stored, type=SessionState)
        if b'"has_override":true' in stored:
            tier, *rest, asked_in = msgspec.structs.astuple(msgspec.json.decode(stored, type=_Before))
            state = state if asked_in else replace(state, wish=Wish(tier, *rest))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return state
