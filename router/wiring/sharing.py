"""What a router builds differently that shares its stores with others. Without `shared:`, nothing more is loaded here."""

import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from router.contract.allowance import Allowance
from router.contract.shared import SharedTerms, WhenBlind
from router.dispatch.live.statistics import LiveStatistics
from router.house import AcceptJob, House
from router.limits.budgets import Budgets, ReadSpending
from router.limits.rates import CallerRates
from router.page.ring import PageSwitch
from router.plan import Plan, State
from router.responses.repeats import Repeats
from router.sessions.turn_state import TurnTokens, derive_key
from router.stores.key_file import read_key
from router.stores.shared import Shared

if TYPE_CHECKING:
    from router.page.others import OtherRouters


def show_others(state: State, page: PageSwitch) -> "OtherRouters | None":
    if state.shared is None or state.shared.pulse is None:
        return None
    from router.page.others import OtherRouters  # only routers that share a server need it

    return OtherRouters(state.shared.pulse, page, state.running)


def open_house(plan: Plan, state: State, accept_job: AcceptJob) -> House:
    """Where a router shares a server or a database, the end of each answer waits for it."""
    shared = state.shared
    if shared is None or (shared.link is None and shared.terms.postgres is None):
        return House(plan, state, accept_job=accept_job)

    from router.wiring.shared_house import SharedHouse  # loaded late: a router that shares nothing does not need it

    return SharedHouse(plan, state, shared.link.unconfirmed if shared.link is not None else Counter(), accept_job)


def recognise_repeats(shared: Shared | None) -> Repeats:
    """Recognises repeated requests: of this router, or of all that share a server."""
    if shared is None:
        return Repeats()
    return Repeats(shared=shared.open_repeats(), goes_on_blind=shared.terms.when_blind is WhenBlind.OPEN)


def make_tokens(ledger: Path | None, shared: SharedTerms | None) -> TurnTokens:
    """Tokens that all routers with the same secret can read; else those that start on the same ledger, or this one alone."""
    if shared is not None and shared.secret is not None:
        return TurnTokens(partial(derive_key, shared.secret.reveal()))
    return TurnTokens(partial(read_key, ledger.with_name(f"{ledger.name}.key"))) if ledger is not None else TurnTokens()


def observe_targets(shared: Shared | None) -> LiveStatistics:
    if shared is None or shared.pulse is None:
        return LiveStatistics()
    from router.dispatch.live.elsewhere import LiveEverywhere  # only routers that share a server need it

    return LiveEverywhere(shared.pulse)


def share_limits(
    allowance: Allowance, live: LiveStatistics, read: ReadSpending | None, *, has_keys: bool
) -> tuple[CallerRates, Budgets | None]:
    """Have quotas of targets, rates and budgets counted together with other routers. Only these routers load what does that."""
    from router.limits.shared_budgets import SharedBudgets
    from router.limits.shared_limits import SharedRates
    from router.limits.shared_quota import share_quotas

    live.queues.make_meter = partial(share_quotas, allowance)
    return SharedRates(allowance, time.perf_counter), SharedBudgets(read, allowance) if has_keys else None
