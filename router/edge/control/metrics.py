"""`/metrics`, for Prometheus: what was counted, and the state of everything at this moment."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from router.contract.caller import SCRAPER
from router.contract.errors import NotFound, NotPermitted, TandemError
from router.contract.exchange import Part
from router.contract.request import JsonObject
from router.contract.stores import StoreUnusable
from router.edge.control.panel import Answer, Asked, Page
from router.edge.control.savings import SINCE_START_SECONDS, Looks
from router.edge.routes import METRICS
from router.edge.shedding import read_resident_bytes
from router.house import House
from router.loop.supervisor import restarts
from router.stores.shared import Shared

if TYPE_CHECKING:
    from router.telemetry.metrics import Buckets, Samples

ReadJobs = Callable[[], Awaitable["Mapping[str, Samples]"]]
"""The figures of background work."""
_LAG_SECONDS = 0.005


class Figures:
    """Shows all figures to Prometheus: without keys to everyone on this machine, else to an admin or with `metrics.key`."""

    def __init__(
        self,
        house: House,
        looks: Looks | None = None,
        jobs: ReadJobs | None = None,
        find_usable: Callable[[], Mapping[str, bool]] = dict,
    ) -> None:
        """`find_usable` returns which of this router's own stores can be used now."""
        self._house, self._looks, self._jobs = house, looks, jobs
        self._find_usable = find_usable
        self.pages = (Page(METRICS, self._show),)

    async def _show(self, asked: Asked) -> Answer:
        if not self._house.state.observers.is_on(Part.METRICS):
            raise NotFound(f"{METRICS} is off. Set metrics: {{on: true}} in the router's config to count and serve figures")
        if asked.caller != SCRAPER and not asked.rights.is_admin:
            raise NotPermitted(f"{METRICS} needs a key with the right admin, or the one that metrics.key in the config names")
        body, media_type = await asyncio.to_thread(_write, *await self.read(), asked.headers.get("accept", ""))
        return Answer(body, media_type)

    async def read(self) -> "tuple[Mapping[str, Samples], Mapping[str, Buckets]]":
        """What was counted, and the state of everything."""
        counting = self._house.state.metrics
        lag = await measure_lag()
        samples: dict[str, Samples] = {
            **counting.counts(),
            **read_state(self._house),
            "tandem_event_loop_lag_seconds": {(): lag},
        }
        up: Samples = {(store,): int(is_up) for store, is_up in self._find_usable().items()}
        samples["tandem_store_up"] = {**samples.get("tandem_store_up", {}), **up}
        if self._jobs is not None:
            samples |= await self._jobs()
        if self._looks is not None:
            with suppress(StoreUnusable, OSError):
                samples |= read_savings(await self._looks.find(counting.began_at, None, keep_seconds=SINCE_START_SECONDS))
        stalls = self._house.state.loop_watch.stalls
        return samples, {**counting.histograms(), "tandem_loop_stall_seconds": stalls.copy()}


def _write(samples: "Mapping[str, Samples]", histograms: "Mapping[str, Buckets]", accept: str) -> tuple[bytes, str]:
    from router.edge.control.exposition import write_figures  # brings prometheus_client, which only a scrape needs

    return write_figures(samples, histograms, accept)


async def measure_lag(clock: Callable[[], float] = time.perf_counter) -> float:
    """How late the event loop wakes a timer of a few milliseconds."""
    began = clock()
    await asyncio.sleep(_LAG_SECONDS)
    return max(0.0, clock() - began - _LAG_SECONDS)


def read_savings(found: JsonObject) -> "dict[str, Samples]":
    """Spent, all on deep, saved and redone; no money without a price."""
    seconds, usd = dict[tuple[str, ...], float](), dict[tuple[str, ...], float]()
    for name in ("spent", "all_deep", "saved", "redone"):
        figures: Any = found[name]
        seconds[name,] = figures["seconds"]
        if figures["usd"] is not None:
            usd[name,] = figures["usd"]
    redone: Any = found["redone"]
    return {
        "tandem_savings_seconds": seconds,
        "tandem_savings_usd": usd,
        "tandem_redone_turns": {(): redone["turns"]},
    }


def read_state(house: House) -> "dict[str, Samples]":
    """The state of targets, queues, budgets, the ledger and the process at this moment."""
    state = house.state
    found: dict[str, Samples] = {
        "tandem_in_flight_requests": {(): len(state.running)},
        **_read_targets(house),
        "tandem_task_restarts_total": {(name,): count for name, count in restarts.items()},
    }
    if (used := _find_highest_use(house)) is not None:
        found["tandem_highest_budget_use_ratio"] = {(): used}
    if (ledger := state.files.get("ledger")) is not None:
        found["tandem_ledger_queue_rows"] = {(): ledger.waiting_rows}
        found["tandem_ledger_lost_rows_total"] = {(): ledger.lost}
    if state.shared is not None:
        found |= read_shared(state.shared)
    if (resident := read_resident_bytes()) is not None:
        found["tandem_resident_memory_bytes"] = {(): resident}
    return found


def _read_targets(house: House) -> "dict[str, Samples]":
    live, now = house.state.live, house.clock()
    in_flight, length, wait, most, limits, quotas, circuits = (dict[tuple[str, ...], float]() for _ in range(7))
    for name, known in live.statuses(house.plan.targets, now).items():
        status = live.queues.show(known, now)
        target, labels = status.target, (status.target.tier.value, name)
        in_flight[labels] = len(live.of(target).queue.open)  # those of this router: each counts its own
        length[labels] = live.queues.waiting_for(name)
        wait[labels] = status.wait_seconds
        circuits[labels] = int(live.of(target).circuit.is_open)
        if target.max_wait_seconds is not None:
            most[labels] = target.max_wait_seconds
        for limit, left in live.queues.left_of(target, now).items():
            quotas[*labels, limit] = left
        for window in live.limits.told.get((name, 0), ()):
            if window.resets_at > now:
                place = (*labels, "prompt_tokens" if window.counts_prompt else "requests_or_output_tokens")
                limits[place] = min(limits.get(place, math.inf), max(0.0, window.left))
    return {
        "tandem_target_in_flight_requests": in_flight,
        "tandem_queue_length": length,
        "tandem_queue_wait_seconds": wait,
        "tandem_queue_max_wait_seconds": most,
        "tandem_limit_left": limits,
        "tandem_quota_left": quotas,
        "tandem_circuit_open": circuits,
    }


def _find_highest_use(house: House) -> float | None:
    """How much of its budget the caller has spent who has spent most of it. None without budgets, or if that is not known."""
    budgets, keys = house.state.budgets, house.plan.keys
    if keys is None:
        return None
    with suppress(TandemError):
        return max((budgets.used_part(name) for name, rights in keys.rights.items() if rights.has_budget), default=None)
    return None


_VALKEY = ("valkey",)


def read_shared(shared: Shared) -> "dict[str, Samples]":
    """The figures of what is shared. Each router counts what it did itself."""
    link, messages, forwarder = shared.link, shared.messages, shared.forwarder
    lag: dict[str, Samples] = {} if forwarder is None else {"tandem_ledger_lag_seconds": {(): forwarder.lag_seconds}}
    if link is None or messages is None:
        return lag
    return {
        **lag,
        "tandem_routers": {(): shared.replicas},
        "tandem_store_up": {_VALKEY: int(link.is_up and link.refusals.current() is None)},
        "tandem_store_trips_total": {_VALKEY: link.trips},
        "tandem_store_seconds_total": {_VALKEY: link.seconds},
        "tandem_store_losses_total": {_VALKEY: link.losses},
        "tandem_store_blind_total": {(kind,): count for kind, count in link.blind.items()},
        "tandem_store_unconfirmed_total": {(kind,): count for kind, count in (shared.unconfirmed or {}).items()},
        "tandem_pulse_ignored_total": {(reason,): count for reason, count in messages.ignored.items()},
    }
