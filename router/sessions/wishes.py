"""Which wish for a tier counts: the newest. A header for one request is not among them: it always comes first.

There are three channels: a first line in the conversation, a tier that is remembered for a named session, and the model's
exact name. Each counts from the message with some index on.
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
"""The index of a name that the session began with: every line is newer, one in the first message too."""


class Channel(Word):
    """Where a wish came from. Of several in one message the last in this order counts."""

    NAME = "name"
    LINE = "line"
    SESSION = "session"


class Naming(Struct, frozen=True):
    """The exact name that a session is asked for by, and the message from which it counts."""

    name: str
    at: int = FROM_THE_START
    is_new: bool = False
    """Whether it changed with this request: then nothing that is remembered is newer."""


def exact_name(alias: Alias) -> str | None:
    """The name, where it is a wish: `auto` asks for no tier, but does so by name. None for one that matches a pattern."""
    if alias.is_pattern:
        return None
    return AUTO if alias.tier is None and alias.target is None else alias.name


def kept_name(name: str | None) -> str:
    """The name as a session remembers it: a session is `auto` unless something else is said."""
    return "" if name is None or name == AUTO else name


def read_naming(name: str, state: SessionState, newest: int, *, is_first: bool, begins_turn: bool) -> Naming:
    """From when on a name counts: from the start of the session, or from the turn at which it changed.

    A session whose names were never exact, or `auto`, is remembered without one. A name that changes inside a turn is obeyed
    for its request, and is a wish only when the next turn begins: clients ask for others by themselves.
    """
    if is_first or not (state.messages or state.wish):
        return Naming(name)
    if name == (state.name or AUTO) or not begins_turn:
        return Naming(name, state.name_at)
    return Naming(name, newest, is_new=True)


def lapsed(state: SessionState) -> Naming | None:
    """What is left of a name where the request has none that counts: what was older than it stays so."""
    return Naming(AUTO, state.name_at) if state.name_at >= 0 else None


def newest_channel(line: InBand | None, wish: Wish | None, naming: Naming | None) -> Channel | None:
    """The channel whose wish counts; None where nobody asked for anything."""
    if line is not None and line.is_newest and not (wish is not None and wish.line == line.mark):
        return Channel.LINE  # what is remembered was asked for before this message was written
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
    """The session with the wish that counts. Raises `UnknownOverride` for a wish for a session that has no name."""
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
    """Whether the message with the remembered line was replaced: the newest one follows the same message, without that line.

    A history that was shortened has other messages before the newest one: then what is remembered stays.
    """
    if not wish.follows or (line is not None and line.mark == wish.line):
        return False
    return mark_index(view, turn, newest) == wish.follows


def _name_to_keep(
    state: SessionState, naming: Naming, view: RequestView, newest: int, channel: Channel | None
) -> tuple[str, int] | None:
    """What is to be remembered of a name, if anything.

    Where a line or a header counts, the name is older whatever its index: a shortened history has other indexes.
    """
    name, at, line = kept_name(naming.name), naming.at, view.overrides.line
    if name != state.name and state.messages and not naming.is_new:
        return None  # it changed inside a turn
    if channel is Channel.LINE and line is not None:
        at = min(at, line.index)
    if view.overrides.for_session:
        at = min(at, newest)
    return (name, at) if (name, at) != (state.name, state.name_at) else None


def remember_wish(state: SessionState, session: SessionSnapshot, view: RequestView, turn: Turn, now: float) -> SessionState:
    """The session with what this request asked for, as far as it is for more than this request."""
    overrides, line = view.overrides, view.overrides.line
    if session.is_edited and state.wish == session.state.wish:
        state = state.with_wish(None, at=now)
    if session.name is not None:
        state = state.with_name(*session.name)
    if overrides.for_session:
        return state.with_wish(Wish(overrides.tier, session.newest, line.mark if line else ""), at=now)
    if session.heeds_line and line is not None and not turn.is_guessed and not _knows(state.wish, line):
        # The line comes with every request until the client shortens the history. A session that is only guessed by its
        # first words remembers none: others may begin with the same.
        return state.with_wish(Wish(line.tier, line.index, line.mark, mark_index(view, turn, line.index)), at=now)
    return state


def _knows(wish: Wish | None, line: InBand) -> bool:
    return wish is not None and wish.line == line.mark and wish.tier is line.tier
