"""Which wish for a tier counts: the newest. A header for one request always wins and is handled elsewhere.

Wishes come from a first line in the conversation, a tier remembered for a named session, or the model's exact name, each from
some message on.
"""

from msgspec import Struct
from msgspec.structs import replace

from router.contract.errors import UnknownOverride
from router.contract.request import InBand, RequestView
from router.contract.session import SessionSnapshot, SessionState, Wish
from router.contract.signals import Alias, Turn
from router.contract.words import PERSONS_KINDS, TurnKind, Word
from router.sessions.clients import BY_NAME, UNKNOWN_CLIENT
from router.sessions.history import newest_words
from router.sessions.marks import mark_index

AUTO = "auto"
_NO_NAME = (
    "x-tandem-scope: session needs a session that the request names. Send x-tandem-session: NAME, or prompt_cache_key or"
    " metadata.session_id in the body; a first line `tier: deep` in a message needs no name"
)
FROM_THE_START = -1
"""The index of a session's first name: every line is newer, even in the first message."""


class Channel(Word):
    """The origin of a wish. Within one message the last in this order counts."""

    NAME = "name"
    LINE = "line"
    SESSION = "session"


class Naming(Struct, frozen=True):
    """A session's exact model name, and the message from which it counts."""

    name: str
    at: int = FROM_THE_START
    is_new: bool = False
    """Changed by this request: newer than everything remembered."""


def exact_name(alias: Alias) -> str | None:
    """The name, if it is a wish (`auto` is one); None if it matched a pattern."""
    if alias.is_pattern:
        return None
    return AUTO if alias.tier is None and alias.target is None else alias.name


def kept_name(name: str | None) -> str:
    """Empty for `auto`, the default."""
    return "" if name is None or name == AUTO else name


def read_naming(name: str, state: SessionState, newest: int, *, is_first: bool, begins_turn: bool) -> Naming:
    """From when a name counts: the start of the session, or the turn at which it changed.

    A name that changes inside a turn counts for its request alone until the next turn: clients switch models by themselves.
    """
    if is_first or not (state.messages or state.wish):
        return Naming(name)
    if name == (state.name or AUTO) or not begins_turn:
        return Naming(name, state.name_at)
    return Naming(name, newest, is_new=True)


def lapsed(state: SessionState) -> Naming | None:
    """The remembered name's index, where the request has no name that counts: older wishes stay older."""
    return Naming(AUTO, state.name_at) if state.name_at >= 0 else None


def newest_channel(line: InBand | None, wish: Wish | None, naming: Naming | None) -> Channel | None:
    if line is not None and line.is_newest and not (wish is not None and wish.line == line.mark):
        return Channel.LINE  # remembered wishes are older than this message
    if naming is not None and naming.is_new:
        return Channel.NAME
    found: list[tuple[int, int, Channel]] = []
    if naming is not None:
        found.append((naming.at, 0, Channel.NAME))
    if line is not None:
        found.append((line.index, 1, Channel.LINE))
    if wish is not None:
        found.append((wish.at, 2, Channel.SESSION))
    return max(found)[2] if found else None


def apply_wishes(found: SessionSnapshot, view: RequestView, turn: Turn, alias: Alias) -> SessionSnapshot:
    """The session with the wish that counts. Raises `UnknownOverride` for a session wish without a name."""
    state, wish, line, name = found.state, found.state.wish, view.overrides.line, exact_name(alias)
    if view.overrides.for_session and turn.is_guessed:
        raise UnknownOverride(_NO_NAME, param="x-tandem-scope")
    newest = newest_words(view.conversation, BY_NAME.get(turn.client, UNKNOWN_CLIENT))
    is_edited = wish is not None and _is_edited(wish, line, view, turn, newest)
    if is_edited:
        wish = None
    is_persons = turn.kind in PERSONS_KINDS
    naming = lapsed(state)
    if name is not None:
        is_first = not is_persons or (turn.is_guessed and not turn.history.turns)
        naming = read_naming(name, state, newest, is_first=is_first, begins_turn=turn.kind is not TurnKind.TOOL_LOOP)
    channel = newest_channel(line, wish, naming)
    return replace(
        found,
        override=wish.tier if wish is not None and channel is Channel.SESSION else None,
        is_edited=is_edited,
        has_wishes=True,
        heeds_line=channel is Channel.LINE,
        heeds_name=channel is Channel.NAME or channel is None,
        newest=newest,
        name=_name_to_keep(state, naming, view, newest, channel)
        if naming is not None and name is not None and is_persons
        else None,
    )


def _is_edited(wish: Wish, line: InBand | None, view: RequestView, turn: Turn, newest: int) -> bool:
    """Whether the message with the remembered line was replaced: the newest follows the same one, without the line.

    Not so in a shortened history, where other messages come before.
    """
    if not wish.follows or (line is not None and line.mark == wish.line):
        return False
    return mark_index(view, turn, newest) == wish.follows


def _name_to_keep(
    state: SessionState, naming: Naming, view: RequestView, newest: int, channel: Channel | None
) -> tuple[str, int] | None:
    """None if unchanged. A line or header that counts is newer, whatever the indexes."""
    name, at, line = kept_name(naming.name), naming.at, view.overrides.line
    if name != state.name and state.messages and not naming.is_new:
        return None  # changed inside a turn
    if channel is Channel.LINE and line is not None:
        at = min(at, line.index)
    if view.overrides.for_session:
        at = min(at, newest)
    return (name, at) if (name, at) != (state.name, state.name_at) else None


def remember_wish(state: SessionState, session: SessionSnapshot, view: RequestView, turn: Turn, now: float) -> SessionState:
    """Unless the wish is for this request alone."""
    overrides, line = view.overrides, view.overrides.line
    if session.is_edited and state.wish == session.state.wish:
        state = state.with_wish(None, at=now)
    if session.name is not None:
        state = state.with_name(*session.name)
    if overrides.for_session:
        return state.with_wish(Wish(overrides.tier, session.newest, line.mark if line else ""), at=now)
    if session.heeds_line and line is not None and not turn.is_guessed and not _knows(state.wish, line):
        # The line is in every request until the client shortens the history. A guessed session remembers none: others may begin
        # alike.
        return state.with_wish(Wish(line.tier, line.index, line.mark, mark_index(view, turn, line.index)), at=now)
    return state


def _knows(wish: Wish | None, line: InBand) -> bool:
    return wish is not None and wish.line == line.mark and wish.tier is line.tier
