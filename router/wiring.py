"""The composition root: a config → a house with everything in it. The only place that knows every room."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router.config.faults import Known, KnownAdapter
from router.config.load import LoadedConfig
from router.contract.entry import Entry, Ledger
from router.contract.memory import SessionStore
from router.contract.relay import Adapter, Warmable
from router.contract.request import JsonObject
from router.contract.transcript import ResponseStore
from router.decide.choose import Rules
from router.decide.estimate import Economics, TurnSize
from router.decide.explain import explain
from router.decide.ratios import learn_ratios
from router.dispatch.attempts import Dispatcher
from router.dispatch.live import LiveStatistics
from router.dispatch.outgoing import Reachable
from router.edge.asgi import Shim
from router.edge.catalogue import Catalogue
from router.edge.control import build_control
from router.edge.doors import Limits
from router.edge.gate import Gate
from router.house import House
from router.ledger.sessions import NoSessions, SqliteSessions
from router.ledger.sqlite import NoLedger, SqliteLedger
from router.ledger.transcripts import SqliteResponses
from router.ledger.work import read_finished_work
from router.registry import ADAPTERS, POLICIES
from router.sense.calibration import Calibration
from router.sense.exact import ExactCounter
from router.sense.models import ModelNames
from router.sessions.clients import BY_NAME
from router.sessions.memory import SessionMemory
from router.sessions.transcripts import MemoryResponses
from router.telemetry import events
from router.telemetry.tasks import stop_all
from router.upstream.pool import Pool

_SETTLE_SECONDS = 1.0
_LEARN_SECONDS = 600.0


def known_names() -> Known:
    """What a config may name."""
    return Known(
        policies={name: policy.Config for name, policy in POLICIES.items()},
        adapters={
            name: KnownAdapter(adapter.speaks, adapter.needs_address, adapter.Settings, getattr(adapter, "library", ""))
            for name, adapter in ADAPTERS.items()
        },
        clients=tuple(BY_NAME),
    )


@dataclass(frozen=True, slots=True)
class Built:
    """A house and what must be closed after it."""

    house: House
    pool: Pool
    counter: ExactCounter
    adapters: tuple[Adapter, ...]
    ledger_path: Path | None = None

    def warm(self) -> None:
        """Let adapters load what is costly to load, now that requests are served."""
        for adapter in self.adapters:
            if isinstance(adapter, Warmable):
                adapter.warm()

    def learn(self) -> None:
        """Take from the ledger how much work each target makes of a turn."""
        if self.ledger_path is not None and self.ledger_path.is_file():
            work = read_finished_work(self.ledger_path, time.time())
            self.house.live.learn(learn_ratios(work, self.house.rules.economics))

    async def keep_learning(self) -> None:
        """The same now and then, off the loop."""
        while True:
            await asyncio.to_thread(self.learn)
            await asyncio.sleep(_LEARN_SECONDS)

    async def close(self) -> None:
        """Flush and let go, in the order in which nothing is lost."""
        await stop_all(_SETTLE_SECONDS)
        await self.pool.close()
        self.counter.close()
        self.house.ledger.close()
        self.house.transcripts.close()
        self.house.memory.close()


def build_house(loaded: LoadedConfig, *, with_ledger: bool = True) -> Built:
    """Build everything that a request passes."""
    config = loaded.config
    pool = Pool()
    counter = ExactCounter(lambda reason: events.tokens_uncounted(reason=reason))
    targets = {plan.target.name: plan.target for plan in loaded.targets}
    live = LiveStatistics(targets.values())
    # The registry's classes share no base: each adapter takes its own settings, which the config has checked.
    adapters: dict[str, Any] = dict(ADAPTERS)
    policies: dict[str, Any] = dict(POLICIES)
    reachable = {
        plan.target.name: Reachable(
            plan.target, adapters[plan.adapter](plan.endpoint, plan.settings, pool), plan.endpoint.model, plan.fit
        )
        for plan in loaded.targets
    }
    house = House(
        rules=Rules(
            policies=tuple(policies[name](settings) for name, settings in loaded.policies),
            economics=_economics(loaded),
            spill_over=config.spill_over,
            config_fingerprint=loaded.fingerprint,
            weights_fingerprint=loaded.weights_fingerprint,
        ),
        models=ModelNames(config.models, tuple(targets)),
        targets=targets,
        live=live,
        dispatcher=Dispatcher(
            reachable,
            live,
            deadline_seconds=config.limits.deadline_seconds,
            max_response_bytes=config.limits.max_response_bytes,
            clock=time.perf_counter,
        ),
        ledger=_ledger(loaded, with_ledger=with_ledger),
        counter=counter,
        memory=SessionMemory(_sessions(loaded, on_disk=with_ledger), targets),
        transcripts=_transcripts(loaded, on_disk=with_ledger),
        calibration=Calibration(),
        keeps_text=config.ledger.keep_text,
        heeds_lines=config.in_band_line,
    )
    return Built(house, pool, counter, tuple(entry.adapter for entry in reachable.values()), loaded.ledger_path)


def build_edge(house: House, loaded: LoadedConfig, is_ready: Callable[[], bool]) -> tuple[Gate, Shim]:
    """The gate to a house, and the ASGI app for connections that are not hot."""
    limits = loaded.config.limits
    gate = Gate(
        house,
        Limits(
            max_body_bytes=limits.max_body_bytes,
            max_headers=limits.max_headers,
            max_header_bytes=limits.max_header_bytes,
            max_in_flight=limits.max_in_flight,
            header_timeout_seconds=limits.header_timeout_seconds,
            body_timeout_seconds=limits.body_timeout_seconds,
            min_body_bytes_per_second=limits.min_body_bytes_per_second,
            write_idle_timeout_seconds=limits.write_idle_timeout_seconds,
        ),
    )
    control = build_control(house, Catalogue(house.models, house.targets), gate.limits, is_ready)
    return gate, Shim(gate, control)


def _economics(loaded: LoadedConfig) -> Economics:
    decision = loaded.config.decision
    return Economics(
        value_of_time_usd_per_hour=decision.value_of_time_usd_per_hour,
        redo_factor=getattr(decision.redo_factor, loaded.config.preference),
        hop_seconds=decision.hop_seconds,
        quick=TurnSize(decision.quick.calls, decision.quick.output_tokens),
        long=TurnSize(decision.long.calls, decision.long.output_tokens),
        base_rate=decision.base_rate,
        personal_log_odds=decision.personal_log_odds,
    )


def _ledger(loaded: LoadedConfig, *, with_ledger: bool) -> Ledger:
    path = loaded.ledger_path
    if not with_ledger or path is None:
        return NoLedger(explain_entry)
    return SqliteLedger(
        path,
        keep_days=loaded.config.ledger.keep_days,
        explain=explain_entry,
        on_failure=lambda reason, lost: events.ledger_failed(reason=reason, lost=lost),
    )


def _transcripts(loaded: LoadedConfig, *, on_disk: bool) -> ResponseStore:
    path = loaded.store_path
    if not on_disk or path is None:
        return MemoryResponses()
    return MemoryResponses(SqliteResponses(path, on_failure=lambda reason, lost: events.store_failed(reason=reason, lost=lost)))


def _sessions(loaded: LoadedConfig, *, on_disk: bool) -> SessionStore:
    if not on_disk or loaded.ledger_path is None:
        return NoSessions()
    return SqliteSessions(loaded.ledger_path, on_failure=lambda reason, lost: events.ledger_failed(reason=reason, lost=lost))


def explain_entry(entry: Entry) -> JsonObject:
    """The decision of a served request, with what became of it."""
    assert entry.decision is not None
    return {
        "request_id": entry.id,
        **explain(entry.decision),
        "outcome": str(entry.outcome),
        "served_by": entry.target,
        "attempts": [attempt._asdict() for attempt in entry.attempts],
        "ttft_ms": entry.ttft_ms,
        "duration_ms": entry.duration_ms,
        "overhead_ms": entry.overhead_ms,
        "cost_usd": entry.cost_usd,
        "dropped": list(entry.dropped),
    }
