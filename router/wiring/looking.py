"""Looks of deep over what fast did, put together for one config."""

from collections.abc import Callable, Mapping

from router.config.load import LoadedConfig
from router.contract.spending import find_zone
from router.dispatch.outgoing import Reachable
from router.edge.routes import new_request_id
from router.limits.callers import CallerLimits
from router.look.asking import Asker
from router.look.looking import Looker
from router.look.looks import KeepJob
from router.plan import State


def look_over(
    loaded: LoadedConfig,
    reachable: Mapping[str, Reachable],
    limits: CallerLimits,
    state: State,
    clock: Callable[[], float],
    keep_job: KeepJob,
) -> Looker:
    terms, zone = loaded.combine.look, find_zone(loaded.config.budgets.time_zone)
    asker = Asker(reachable, limits, state.looks, terms.daily_usd, clock, zone)
    return Looker(
        terms,
        asker,
        state.looks,
        clock,
        running=state.running,
        new_id=new_request_id,
        keep_job=keep_job,
        note_objections=state.memory.note_objections,
    )
