"""The composition root: a config → a house with everything in it. The only place that knows every room."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from router.config.faults import Known
from router.config.load import LoadedConfig
from router.config.models import SHIPPED_MODELS, Config
from router.contract.economics import Economics, TurnSize
from router.contract.entry import FinishedWork
from router.contract.exchange import Exchange, Observer
from router.contract.facts import Decided
from router.contract.limits import Limits
from router.contract.relay import Upstream, Warmable
from router.contract.stores import EntryStore, ResponseStore, SessionStore
from router.contract.target import Target
from router.decide.choose import Rules, target_without_quotas
from router.decide.doubt import rules_with
from router.decide.estimate import find_rival, worth_waiting
from router.decide.ratios import learn_failures, learn_ratios
from router.dispatch.dispatch import Dispatcher, QuotaSense
from router.dispatch.live.past import Paces, sum_up
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.outgoing import Reachable
from router.edge.admission import Admission
from router.edge.http.asgi import App, AsgiApp
from router.edge.http.late_app import LateApp
from router.house import House
from router.loop.tasks import stop_all
from router.plan import Plan, State
from router.registry import ADAPTERS, POLICIES
from router.responses.keep import ResponseKeeper
from router.second_opinion import Adviser
from router.sense.calibration import Calibration
from router.sense.exact import ExactCounter
from router.sense.models import ModelNames, models_behind
from router.sessions.clients import BY_NAME
from router.sessions.memory import SessionMemory
from router.sessions.supersede import Superseding
from router.sessions.turn_state import TurnTokens
from router.settle.kept import explain_row
from router.settle.record import Recorder
from router.stores.key_file import read_key
from router.stores.memory.entries import MemoryEntries
from router.stores.memory.responses import MemoryResponses
from router.stores.memory.sessions import NoSessions
from router.stores.sqlite.entries import SqliteEntries
from router.stores.sqlite.migrate import LEDGER, RESPONSES, Migrations
from router.stores.sqlite.paces import read_past_calls
from router.stores.sqlite.responses import SqliteResponses
from router.stores.sqlite.sessions import SqliteSessions
from router.stores.sqlite.work import read_finished_work
from router.stores.sqlite.writer import SqliteWriter
from router.telemetry import events
from router.telemetry.log import RequestLog
from router.telemetry.observers import ObserverTable
from router.upstream.pool import Pool

_SETTLE_SECONDS = 1.0
_LEARN_SECONDS = 600.0


def known_names() -> Known:
    """What a config may name."""
    return Known(
        policies={name: policy.Config for name, policy in POLICIES.items()},
        adapters=ADAPTERS,
        clients=tuple(BY_NAME),
    )


@dataclass(frozen=True, slots=True)
class Built:
    """A house, and what must be done for it around its requests."""

    house: House
    ledger_path: Path | None = None

    def warm(self) -> None:
        """Let adapters load what is costly to load, now that requests are served."""
        for adapter in self.house.plan.dispatcher.adapters:
            if isinstance(adapter, Warmable):
                adapter.warm()

    def learn(self) -> None:
        """Take from the ledger how fast targets were, how much work each makes of a turn, and how often fast's is redone."""
        self._apply(*self._read_ledger())

    async def keep_learning(self) -> None:
        """The same now and then, with the file read off the loop."""
        while True:
            self._apply(*await asyncio.to_thread(self._read_ledger))
            await asyncio.sleep(_LEARN_SECONDS)

    def _read_ledger(self) -> tuple[list[FinishedWork], Paces]:
        path = self.ledger_path
        if path is None or not path.is_file():
            return [], {}
        return read_finished_work(path, time.time()), sum_up(read_past_calls(path))

    def _apply(self, work: list[FinishedWork], paces: Paces) -> None:
        ratios, live = learn_ratios(work, self.house.plan.rules.economics), self.house.state.live
        live.learn(ratios, learn_failures(work))
        live.recall(paces, time.perf_counter(), time.time())

    async def close(self) -> None:
        """Flush and let go, in the order in which nothing is lost."""
        await self.house.stop(_SETTLE_SECONDS)
        await stop_all(_SETTLE_SECONDS)
        state = self.house.state
        await state.upstream.close()
        state.counter.close()
        await state.entries.close()
        await state.responses.close()
        await state.memory.close()
        state.repeats.close()


def build_house(loaded: LoadedConfig, *, with_ledger: bool = True, watchers: tuple[Observer, ...] = ()) -> Built:
    """Build everything that a request passes. `watchers` are told of it after all others."""
    state = build_state(loaded, on_disk=with_ledger, watchers=watchers)
    return Built(House(build_plan(loaded, state.upstream), state), loaded.ledger_path)


def build_state(loaded: LoadedConfig, *, on_disk: bool = True, watchers: tuple[Observer, ...] = ()) -> State:
    """What outlives a plan. The observers are called in this order."""
    entries, sessions = _open_ledger(loaded, on_disk=on_disk)
    responses = _open_responses(loaded, on_disk=on_disk)
    path = loaded.ledger_path if on_disk else None
    tokens = TurnTokens(partial(read_key, path.with_name(f"{path.name}.key"))) if path is not None else TurnTokens()
    memory, live, recorder = SessionMemory(sessions, tokens=tokens), LiveStatistics(), Recorder(entries)
    running: set[Exchange] = set()
    observers: tuple[Observer, ...] = (
        memory,
        live,
        Superseding(running),
        ResponseKeeper(responses),
        recorder,
        RequestLog(),
        *watchers,
    )
    return State(
        memory=memory,
        live=live,
        responses=responses,
        entries=recorder,
        counter=ExactCounter(lambda reason: events.tokens_uncounted(reason=reason)),
        calibration=Calibration(),
        upstream=Pool(),
        observers=ObserverTable(observers),
        running=running,
    )


def build_plan(loaded: LoadedConfig, upstream: Upstream, clock: Callable[[], float] = time.perf_counter) -> Plan:
    """What one config makes. It may take the place of another at any time (`House.swap`). The house has the same clock."""
    config = loaded.config
    # The registry's classes share no base: each takes its own settings, which the config has checked.
    adapters: dict[str, Any] = dict(ADAPTERS)
    policies: dict[str, Any] = dict(POLICIES)
    targets = {plan.target.name: plan.target for plan in loaded.targets}
    reachable = {
        plan.target.name: Reachable(
            plan.target,
            adapters[plan.adapter](plan.endpoint, plan.settings, upstream),
            plan.endpoint.model,
            plan.fit,
            plan.endpoint.api_key,
            plan.endpoint.over_websocket,
            plan.endpoint.secrets,
        )
        for plan in loaded.targets
    }
    rules = Rules(
        policies=tuple(policies[name](settings) for name, settings in loaded.policies),
        economics=_economics(loaded),
        spill_over=config.spill_over,
        config_fingerprint=loaded.fingerprint,
        weights_fingerprint=loaded.weights_fingerprint,
    )
    return Plan(
        rules=rules,
        models=ModelNames(config.models, tuple(targets), SHIPPED_MODELS, models_behind(_own_models(loaded))),
        targets=targets,
        dispatcher=Dispatcher(
            reachable,
            max_response_bytes=config.limits.max_response_bytes,
            clock=clock,
            find_rival=find_rival,
            quota_sense=quota_sense_of(rules),
        ),
        limits=limits_of(loaded),
        deadline_seconds=config.limits.deadline_seconds,
        keeps_text=config.ledger.keep_text,
        applies_tier_lines=config.in_band_line,
        window_of_auto=config.window_of_auto,
        takes_callers_keys=any(target.takes_callers_key for target in targets.values()),
        pass_through=config.pass_through,
        adviser=_find_adviser(config, reachable, rules),
    )


def _own_models(loaded: LoadedConfig) -> list[tuple[Target, str]]:
    """Every target that has a model, with the model's own name there."""
    return [(plan.target, plan.endpoint.model) for plan in loaded.targets if plan.endpoint.model]


def _find_adviser(config: Config, reachable: Mapping[str, Reachable], rules: Rules) -> Adviser | None:
    """Who gives a second opinion. A question to it has no part of its tier's own instructions."""
    asked = config.second_opinion
    if asked is None:
        return None
    target = reachable[asked.target]
    plain = replace(target, fit=target.fit._replace(instructions=""))
    return Adviser(plain, rules, asked.max_wait_seconds, time.perf_counter)


def quota_sense_of(rules: Rules) -> QuotaSense:
    """What the decision knows of quotas, for the room that keeps them."""

    def missed(decided: Decided) -> str:
        decision, asked = decided.decision, decided.decision.second_opinion
        heard = rules if asked is None else rules_with(rules, asked.target, asked.answer)
        return target_without_quotas(heard, decided.view, decision.signals)

    return QuotaSense(worth_waiting, missed)


def build_edge(house: House, is_ready: Callable[[], bool]) -> tuple[Admission, AsgiApp]:
    """Admission to a house, and the ASGI app for connections that are handed over."""
    admission = Admission(house)

    def build() -> App:
        from router.edge.control import build_control  # FastAPI takes 0.3 s and 9 MB, and a create call needs none of it

        return build_control(house, is_ready)

    return admission, AsgiApp(admission, LateApp(build))


def limits_of(loaded: LoadedConfig) -> Limits:
    """The limits that a config sets, as a plan holds them."""
    limits = loaded.config.limits
    return Limits(
        max_body_bytes=limits.max_body_bytes,
        max_headers=limits.max_headers,
        max_header_bytes=limits.max_header_bytes,
        max_in_flight=limits.max_in_flight,
        header_timeout_seconds=limits.header_timeout_seconds,
        body_timeout_seconds=limits.body_timeout_seconds,
        min_body_bytes_per_second=limits.min_body_bytes_per_second,
        write_idle_timeout_seconds=limits.write_idle_timeout_seconds,
        max_sockets=limits.max_sockets,
    )


def _economics(loaded: LoadedConfig) -> Economics:
    decision = loaded.config.decision
    return Economics(
        value_of_time_usd_per_hour=decision.value_of_time_usd_per_hour,
        preference=loaded.config.preference,
        hop_seconds=decision.hop_seconds,
        quick=TurnSize(decision.quick.calls, decision.quick.output_tokens),
        long=TurnSize(decision.long.calls, decision.long.output_tokens),
        base_rate=decision.base_rate,
        personal_log_odds=decision.personal_log_odds,
    )


def _open_ledger(loaded: LoadedConfig, *, on_disk: bool) -> tuple[EntryStore, SessionStore]:
    """Entries and sessions: in one file, with one writer."""
    path = loaded.ledger_path
    if not on_disk or path is None:
        return MemoryEntries(explain_row), NoSessions()
    writer = _open_writer(path, LEDGER, lambda reason, lost: events.ledger_failed(reason=reason, lost=lost))
    kept = loaded.config.ledger
    entries = SqliteEntries(writer, keep_days=kept.keep_days, keeps_places=kept.keep_places, explain=explain_row)
    return entries, SqliteSessions(writer)


def _open_responses(loaded: LoadedConfig, *, on_disk: bool) -> ResponseStore:
    path = loaded.store_path
    if not on_disk or path is None:
        return MemoryResponses()
    writer = _open_writer(path, RESPONSES, lambda reason, lost: events.store_failed(reason=reason, lost=lost))
    return MemoryResponses(SqliteResponses(writer))


def _open_writer(path: Path, migrations: Migrations, on_failure: Callable[[str, int], None]) -> SqliteWriter:
    writer = SqliteWriter(path, migrations, on_failure=on_failure)
    if writer.migrated is not None:
        done = writer.migrated
        events.store_migrated(file=done.file, before=done.before, version=done.version, copy=done.copy.name)
    return writer
