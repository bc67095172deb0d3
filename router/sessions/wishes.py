"""Which of the wishes for a tier counts: the newest. A header is no part of this: it counts for its own request, before all.

Three channels may speak: a first line in the conversation, a tier that is remembered for the session, and the model's exact
name. Each has a place: the message from which it counts.
"""

from msgspec import Struct

from router.contract.request import InBand
from router.contract.session import SessionState
from router.contract.signals import Alias
from router.contract.words import Word

AUTO = "auto"
FROM_THE_START = -1
"""The place of a name that the session began with: every line is newer, one in the first message too."""


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

    A session whose names were never exact, or `auto`, is remembered without one. A name that changes inside a turn counts when
    the next turn begins: clients ask for others by themselves.
    """
    if is_first or not (state.messages or state.has_override):
        return Naming(name)
    if name == (state.name or AUTO) or not begins_turn:
        return Naming(name, state.name_at)
    return Naming(name, newest, is_new=True)


def lapsed(state: SessionState) -> Naming | None:
    """What is left of a name where the request has none that counts: what was older than it stays so."""
    return Naming(AUTO, state.name_at) if state.name_at >= 0 else None


def newest_channel(line: InBand | None, state: SessionState, naming: Naming | None) -> Channel | None:
    """The channel whose wish counts; None where nobody asked for anything."""
    if line is not None and line.is_newest and not (state.has_override and state.override_line == line.mark):
        return Channel.LINE  # what is remembered was asked for before this message was written
    if naming is not None and naming.is_new:
        return Channel.NAME
    found: list[tuple[int, int, Channel]] = []
    if naming is not None:
        found.append((naming.at, 0, Channel.NAME))
    if line is not None:
        found.append((line.place, 1, Channel.LINE))
    if state.has_override:
        found.append((state.override_at, 2, Channel.SESSION))
    return max(found)[2] if found else None
