"""What a person asked of a whole session: a tier, by header, or a model by its name. The newer of the two counts.

A header for one request and a line in a message come before both, and are not remembered.
"""

from msgspec.structs import replace

from router.contract.errors import UnknownOverride
from router.contract.request import RequestView
from router.contract.session import SessionSnapshot, SessionState
from router.contract.signals import Alias, Turn, Wish
from router.contract.words import BEGINS

AUTO = "auto"
_NO_NAME = (
    "x-tandem-scope: session needs a session that the request names. Send x-tandem-session: NAME, or prompt_cache_key or"
    " metadata.session_id in the body; a first line `tier: deep` in a message needs no name"
)


def exact_name(alias: Alias) -> str | None:
    """The name, if it is a wish (`auto` is one); None if it matched a pattern."""
    if alias.is_pattern:
        return None
    return AUTO if alias.tier is None and alias.target is None else alias.name


def kept_name(name: str | None) -> str:
    """Empty for `auto`, the default."""
    return "" if name is None or name == AUTO else name


def heed(found: SessionSnapshot, view: RequestView, turn: Turn, alias: Alias) -> SessionSnapshot:
    """The session with the tier that it was set to, unless the model's name is newer.

    Raises `UnknownOverride` for a tier for a session without a name.
    """
    if view.overrides.for_session and turn.is_guessed:
        raise UnknownOverride(_NO_NAME, param="x-tandem-scope")
    name, wish = exact_name(alias), found.state.wish
    is_renamed = wish is not None and name is not None and kept_name(name) != wish.name
    return replace(found, wish=None if is_renamed else wish, name=kept_name(name))


def remember(state: SessionState, session: SessionSnapshot, view: RequestView, turn: Turn, now: float) -> SessionState:
    """A name that changes inside a turn counts for its request alone: clients switch models by themselves."""
    if view.overrides.for_session:
        return replace(state, at=now, wish=Wish(view.overrides.tier, session.name), name=session.name)
    if turn.kind not in BEGINS:
        return state
    is_outdated = session.wish is None and state.wish == session.state.wish
    return replace(state, wish=None if is_outdated else state.wish, name=session.name)
