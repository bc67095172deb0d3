"""What is remembered of a session: a frozen value, and the pure steps by which requests change it.

Two requests may be in flight at once (a title request and the first ask). A step changes only its own part of the state of that
moment, so their order does not matter.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from router.contract.caller import SessionKey
from router.contract.signals import SessionPosition, Turn, Wish
from router.contract.words import Tier

_MAX_ORIGINS = 600
NOBODY = "-"
"""Origin of state that its supposed maker refused."""


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
    messages: int = 0
    """Length of the conversation at the last answer."""
    last: str = ""
    warm: Mapping[str, tuple[int, float]] = {}
    """By target: tokens, and until when."""
    origins: Mapping[str, str] = {}

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
    wish: Wish | None = None
    """The state's, unless a newer model name counts."""
    name: str = ""
    """The exact model name to remember."""

    def annotate(self, turn: Turn) -> Turn:
        """The turn with its place in the session."""
        return replace(turn, position=self.position, wish=self.wish)


def _newest(origins: Mapping[str, str]) -> Mapping[str, str]:
    return origins if len(origins) <= _MAX_ORIGINS else dict(list(origins.items())[-_MAX_ORIGINS:])


write_state = msgspec.json.Encoder().encode


def read_state(stored: bytes) -> SessionState | None:
    """Read a stored state; None if it is invalid. Unknown fields are ignored."""
    try:
        return msgspec.json.decode(stored, type=SessionState)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
