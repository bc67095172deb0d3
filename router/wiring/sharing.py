"""What a router builds differently that shares its stores with others. Without `shared:`, nothing more is loaded here."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from router.contract.allowance import Allowance
from router.contract.shared import OnStoreOutage, SharedTerms
from router.dispatch.live.statistics import LiveStatistics
from router.plan import State
from router.responses.repeats import Repeats
from router.sessions.turn_state import TurnTokens, derive_key
from router.stores.key_file import read_key
from router.stores.shared import Shared

if TYPE_CHECKING:
    from router.page.others import OtherRouters


def show_others(state: State) -> "OtherRouters | None":
    if state.shared is None or state.shared.messages is None:
        return None
    from router.page.others import OtherRouters  # only routers that share a server need it

    return OtherRouters(state.shared.messages, state.ring, state.running)


def recognise_repeats(shared: Shared | None) -> Repeats:
    """Recognises repeated requests: of this router, or of all that share a server."""
    if shared is None:
        return Repeats()
    return Repeats(shared=shared.repeats, goes_on_blind=shared.terms.on_store_outage is OnStoreOutage.OPEN)


def make_tokens(ledger: Path | None, shared: SharedTerms | None) -> TurnTokens:
    """Tokens that all routers with the same secret can read; else those that start on the same ledger, or this one alone."""
    if shared is not None and shared.secret is not None:
        return TurnTokens(partial(derive_key, shared.secret.reveal()))
    return TurnTokens(partial(read_key, ledger.with_name(f"{ledger.name}.key"))) if ledger is not None else TurnTokens()


def observe_targets(shared: Shared | None, allowance: Allowance) -> LiveStatistics:
    """Figures of targets, exchanged with the routers that share a server."""
    live = LiveStatistics(allowance=allowance)
    if shared is not None and shared.messages is not None:
        live.share(shared.messages)
    return live
