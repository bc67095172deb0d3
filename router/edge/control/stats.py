"""The live picture: how each target does now, and what is used of its quota; and for a caller, what it has used itself."""

from collections.abc import Mapping
from contextlib import suppress

from router.contract.caller import LOCAL, Caller
from router.contract.request import Json, JsonObject
from router.contract.rights import Rights
from router.contract.stores import StoreUnusable
from router.contract.target import LimitWindow, Target, TargetStatus
from router.dispatch.live.statistics import LiveStatistics
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.edge.control.savings import SINCE_START_SECONDS, Looks
from router.house import House

_FOR_EVERYONE = (
    "tier",
    "loading",
    "window_tokens",
    "wait_seconds",
    "wait_because",
    "left_alone_seconds",
    "ttft_seconds",
    "tokens_per_second",
    "prefill_tokens_per_second",
)
"""What a caller may know of a target. The rest is what all callers together use of it."""


class Stats:
    """Shows an admin the live figures of all targets and callers, and a caller its own."""

    def __init__(self, house: House, looks: Looks | None = None) -> None:
        self._house, self._looks = house, looks
        self.pages = (Page("/tandem/stats", self._show),)

    async def _show(self, asked: Asked) -> Answer:
        house, live = self._house, self._house.state.live
        plan, now = house.plan, house.clock()
        targets = draw(live, plan.targets, now)
        jobs, savings = self._show_jobs(asked), await self._find_savings(asked)
        if not asked.rights.is_admin:
            own = self._show_own(asked.caller, asked.rights)
            return as_json({**own, "targets": _show_some(targets), "jobs": jobs, "savings": savings})
        chain: list[Json] = [{"name": link.name.value, "on": link.is_on} for link in house.state.observers.links]
        quotas = live.queues.picture(plan.targets, now)
        shown: JsonObject = {"targets": targets, "quotas": quotas, "jobs": jobs, "savings": savings, "chain": chain}
        if plan.keys is not None:
            names = (name for name in plan.keys.rights if name != LOCAL.name)
            shown["callers"] = {name: self._show_use(Caller(name), plan.keys.rights[name]) for name in names}
        return as_json(shown)

    async def _find_savings(self, asked: Asked) -> JsonObject | None:
        """Since the start; None without a ledger that can be read."""
        if self._looks is None:
            return None
        began_at, caller = self._house.state.metrics.began_at, None if asked.rights.is_admin else asked.caller.name
        with suppress(StoreUnusable):
            return await self._looks.find(began_at, caller, keep_seconds=SINCE_START_SECONDS)
        return None

    def _show_jobs(self, asked: Asked) -> list[Json]:
        """The background jobs that wait to be collected: a caller's own with their titles, and an admin's view of all."""
        return [
            {
                "id": job.id,
                "state": str(job.state),
                "title": job.title if asked.may_read(job.caller) else "",
                "ended_at": job.ended_at,
                "caller": job.caller.name,
                "session": job.session,
            }
            for job in self._house.state.ended_jobs.list_all()
            if asked.rights.is_admin or job.caller == asked.caller
        ]

    def _show_own(self, caller: Caller, rights: Rights) -> JsonObject:
        tiers, may_force = ([*map(str, sorted(own))] for own in (rights.tiers, rights.may_force))
        may: JsonObject = {
            "tiers": [*tiers],
            "may_force": [*may_force],
            "admin": rights.is_admin,
            "may_delegate": rights.may_delegate,
            "may_combine": rights.may_combine,
        }
        return {"caller": caller.name, "rights": may, **self._show_use(caller, rights)}

    def _show_use(self, caller: Caller, rights: Rights) -> JsonObject:
        state = self._house.state
        in_flight = sum(exchange.caller == caller for exchange in state.running)
        return {
            "in_flight": in_flight,
            "limits": state.rates.show(caller, rights),
            "budget": state.budgets.picture(caller.name),
        }


def _show_some(targets: JsonObject) -> JsonObject:
    """The state of each target, without what others use of it."""
    pictures = ((name, picture) for name, picture in targets.items() if isinstance(picture, dict))
    return {name: {field: picture[field] for field in _FOR_EVERYONE} for name, picture in pictures}


def draw(live: LiveStatistics, targets: Mapping[str, Target], now: float) -> JsonObject:
    """Every target by its name. Limits of callers' own keys are counted, and not shown."""
    return {name: _draw_target(live, targets[name], status, now) for name, status in live.statuses(targets, now).items()}


def _draw_target(live: LiveStatistics, configured: Target, status: TargetStatus, now: float) -> JsonObject:
    status = live.queues.show(status, now)
    name, speed = status.target.name, status.speed
    told = live.limits.told
    return {
        "tier": str(status.target.tier),
        "in_flight": status.in_flight,
        "loading": status.loading or None,
        "window_tokens": status.target.window_tokens,
        "configured_window_tokens": configured.window_tokens,
        "serves_at_once": status.target.in_flight,
        "wait_seconds": round(status.wait_seconds, 1),
        "wait_because": status.wait_because or ("a queue" if status.wait_seconds else None),
        "max_wait_seconds": status.target.max_wait_seconds,
        "is_over_max_wait": status.is_over_max_wait,
        "left_alone_seconds": 0.0 if status.is_over_max_wait or status.loading else round(status.closed_seconds, 1),
        "ttft_seconds": round(speed.ttft_seconds, 3),
        "tokens_per_second": round(speed.tokens_per_second, 1),
        "prefill_tokens_per_second": round(speed.prefill_tokens_per_second),
        "figures_from": {**live.of(status.target).pace.sources},
        "limits": [_draw_window(window, now) for window in told.get((name, 0), ()) if window.resets_at > now],
        "callers_with_limits": sum(target == name and key != 0 for target, key in told),
    }


def _draw_window(window: LimitWindow, now: float) -> Json:
    return {
        "of": "prompt tokens" if window.counts_prompt else "requests or answer tokens",
        "left": max(0.0, window.left),
        "limit": window.limit,
        "resets_in_seconds": round(window.resets_at - now, 1),
    }
