"""The composition root: a config → a house with everything in it. The only place that knows every room."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from router.built import Built, list_notices
from router.callers.budgets import Budgets, Terms
from router.callers.guard import GuardedDispatcher
from router.callers.rates import CallerRates
from router.config.budgets import check_budgets, check_recorded
from router.config.faults import ConfigError, Fault, Known
from router.config.load import LoadedConfig
from router.config.model_facts import provider_of
from router.config.models import SHIPPED_MODELS, Config
from router.config.targets import TargetPlan
from router.contract.caller import LOCAL, Caller
from router.contract.economics import Economics, TurnSize
from router.contract.exchange import Exchange, Observer, Observers
from router.contract.keys import OWN_ID, Key, digest_of, make_key
from router.contract.limits import Limits
from router.contract.opinions import Policy
from router.contract.periods import find_zone
from router.contract.rights import BOTH_TIERS, Rights
from router.contract.stores import EntryStore, ResponseStore
from router.contract.target import Target
from router.contract.tracing import TracedRoute, TraceTerms
from router.decide.opinions import Rules
from router.dialects.histories import Histories
from router.dialects.table import SPECS
from router.dispatch.dispatch import Dispatcher
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.outgoing import Reachable
from router.house import House
from router.loop.speedups import Speedups, is_plain_asked
from router.loop.tasks import stop_all
from router.notices.alerts import Alerts
from router.notices.webhook import Webhook
from router.page.ring import PageSwitch
from router.plan import Plan, State
from router.registry import ADAPTERS, POLICIES, RightsPolicy
from router.reload.reloader import Reloader
from router.responses.keep import ResponseKeeper
from router.responses.repeats import Repeats
from router.second_opinion import Adviser, hold_nothing
from router.sense.exact import ExactCounter
from router.sense.models import ModelNames, models_behind
from router.sense.tokens import Calibration
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
from router.stores.sqlite.responses import SqliteResponses
from router.stores.sqlite.sessions import SqliteSessions
from router.stores.sqlite.writer import SqliteWriter
from router.telemetry import events
from router.telemetry.log import DefectLog, RequestLog
from router.telemetry.metrics_switch import MetricsSwitch
from router.telemetry.tracing import Tracing
from router.upstream.pool import Pool

if TYPE_CHECKING:
    pass

_SETTLE_SECONDS = 1.0


def known_names() -> Known:
    return Known(
        policies={name: policy.Config for name, policy in POLICIES.items()},
        adapters=ADAPTERS,
        clients=tuple(BY_NAME),
    )


def build_house(
    loaded: LoadedConfig,
    *,
    with_ledger: bool = True,
    watchers: tuple[Observer, ...] = (),
    address: str = "",
    load: Callable[[], LoadedConfig] | None = None,
) -> Built:
    """Build everything that a request passes. `watchers` observe it last. If a part fails, the others are closed.

    `address` is where the router will listen: another one that is started on the same ledger is told so, and refused. `load`
    reads the config again, for a reload.
    """
    closing = AsyncExitStack()
    try:
        own = make_key(OWN_ID)
        state = build_state(loaded, closing, on_disk=with_ledger, watchers=watchers, address=address)
        state = replace(state, own_key=Key(own.id, LOCAL, own.digest))
        house = House(build_plan(loaded, state), state)
        if state.budgets is not None and state.budgets.is_needed:
            state.budgets.recall(state.budgets.read_spending())
    except BaseException:
        with ThreadPoolExecutor(1) as thread:  # a loop may be running here, and nothing can be awaited
            thread.submit(asyncio.run, closing.aclose()).result()
        raise
    closing.push_async_callback(stop_all, _SETTLE_SECONDS)
    closing.push_async_callback(house.stop, _SETTLE_SECONDS)
    closing.push_async_callback((webhook := Webhook()).close)
    alerts = Alerts(notices := list_notices(house), webhook)
    alerts.follow(loaded.webhook)
    reloader = Reloader(house, loaded, load, partial(build_plan, state=state), [_check_prices]) if load is not None else None
    _follow_metrics(metrics := MetricsSwitch(state.observers), loaded)
    _follow_page(page := PageSwitch(state.observers), loaded)
    if reloader is not None:
        follow = [partial(_follow_metrics, metrics), partial(_follow_page, page)]
        reloader.applies += [lambda taken: alerts.follow(taken.webhook), *follow]
    return Built(house, loaded.ledger_path, own.text, reloader, notices, alerts, metrics, page, closing)


def _follow_page(page: PageSwitch, loaded: LoadedConfig) -> None:
    page.follow(on=loaded.config.page)


def build_state(
    loaded: LoadedConfig,
    closing: AsyncExitStack,
    *,
    on_disk: bool = True,
    watchers: tuple[Observer, ...] = (),
    address: str = "",
) -> State:
    """What outlives a plan. The observers are called in this order.

    Each part is closed before those above it: nothing may still be written to a store when it closes.
    """
    speedups = Speedups(plain=is_plain_asked(os.environ))
    closing.callback(speedups.off_loop.close)
    ledger = _open_ledger(loaded, address) if on_disk else None
    closing.callback((repeats := Repeats()).close)
    path = loaded.ledger_path if on_disk else None
    tokens = TurnTokens(partial(read_key, path.with_name(f"{path.name}.key"))) if path is not None else TurnTokens()
    sessions = SqliteSessions(ledger) if ledger else NoSessions()
    closing.push_async_callback((memory := SessionMemory(sessions, tokens=tokens)).close)
    closing.push_async_callback((responses := _open_responses(loaded, address, on_disk=on_disk)).close)
    closing.push_async_callback((tracing := Tracing()).close)
    closing.push_async_callback((recorder := Recorder(_keep_entries(loaded, ledger), plain=speedups.is_plain)).close)
    closing.callback((counter := ExactCounter(lambda reason: events.tokens_uncounted(reason=reason))).close)
    closing.push_async_callback((upstream := Pool(speedups)).close)
    live, running = LiveStatistics(), set[Exchange]()
    budgets = Budgets(partial(_read_spending, path) if path is not None else None) if loaded.keys is not None else None
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
        counter=counter,
        calibration=Calibration(),
        upstream=upstream,
        speedups=speedups,
        histories=Histories(remembers=not speedups.is_plain),
        observers=Observers(observers, DefectLog().report),
        running=running,
        repeats=repeats,
        rates=(rates := CallerRates()),
        caller_limits=(rates, budgets) if budgets is not None else (rates,),
        budgets=budgets,
        ledger=ledger,
        tracing=tracing,
    )


def _follow_metrics(metrics: MetricsSwitch, loaded: LoadedConfig) -> None:
    settings = loaded.config.metrics
    metrics.follow([plan.target.name for plan in loaded.targets], on=settings.on, callers=settings.callers)


def _check_prices(loaded: LoadedConfig) -> None:
    """Check what budgets need once more: other keys may bring the first, without the config being read again."""
    faults: list[Fault] = []
    paths = {plan.target.name: f"tiers.{plan.target.tier}" for plan in loaded.targets}
    check_budgets(loaded.keys, loaded.targets, paths, loaded.config.ledger, faults)
    if faults:
        raise ConfigError(loaded.source, faults)


def _read_spending(path: Path, since: float) -> Mapping[str, int]:
    from router.stores.sqlite.past import SqliteEntryReader  # loaded late: no request needs it

    return SqliteEntryReader(path).read_spending(since)


def _follow_budgets(loaded: LoadedConfig, budgets: Budgets, rights: Mapping[str, Rights]) -> None:
    """Apply what a config says of budgets. Raises `ConfigError` where another plan brings the first, and no ledger is kept."""
    if budgets.has_terms:
        check_recorded(loaded.keys, loaded.source, with_ledger=budgets.is_recorded)
    settings, targets = loaded.config.budgets, {plan.target.name: plan for plan in loaded.targets}
    terms = Terms(
        rights=rights,
        zone=find_zone(settings.time_zone),
        warn_at=settings.warn_at,
        added_tokens={name: len(plan.fit.instructions.encode()) for name, plan in targets.items()},
    )
    budgets.follow(terms)


def build_plan(loaded: LoadedConfig, state: State, clock: Callable[[], float] = time.perf_counter) -> Plan:
    """What one config makes. It may take the place of another at any time (`House.swap`). The house has the same clock."""
    config, upstream = loaded.config, state.upstream
    keys = loaded.keys.with_own(state.own_key) if loaded.keys is not None and state.own_key is not None else loaded.keys
    # The registry's classes share no base: each takes its own settings, which the config has checked.
    adapters: dict[str, Any] = dict(ADAPTERS)
    policies: dict[str, Any] = dict(POLICIES)
    targets = {plan.target.name: plan.target for plan in loaded.targets}
    trace = state.tracing.follow(_trace_terms(loaded), state.observers)
    reachable = {
        plan.target.name: Reachable(
            plan.target,
            adapters[plan.adapter](replace(plan.endpoint, is_traced=True) if trace else plan.endpoint, plan.settings, upstream),
            plan.endpoint.model,
            plan.fit,
            plan.endpoint.api_key,
            plan.endpoint.over_websocket,
            plan.endpoint.secrets,
            trace,
        )
        for plan in loaded.targets
    }
    rights = keys.rights if keys is not None else None
    chosen: list[Policy] = [policies[name](settings) for name, settings in loaded.policies]
    if rights is not None and any(own.tiers != BOTH_TIERS for own in rights.values()):
        chosen.append(RightsPolicy(rights))
    if rights is not None and state.budgets is not None:
        _follow_budgets(loaded, state.budgets, rights)
    rules = Rules(
        policies=tuple(chosen),
        economics=_economics(loaded),
        spill_over=config.spill_over,
        config_fingerprint=loaded.fingerprint,
        weights_fingerprint=loaded.weights_fingerprint,
        rights=rights,
    )
    return Plan(
        rules=rules,
        models=ModelNames(config.models, tuple(targets), SHIPPED_MODELS, models_behind(_own_models(loaded))),
        targets=targets,
        dispatcher=_build_dispatcher(loaded, reachable, rights, state, clock),
        limits=limits_of(loaded),
        deadline_seconds=config.limits.deadline_seconds,
        keeps_text=config.ledger.keep_text,
        applies_tier_lines=config.in_band_line,
        window_of_auto=config.window_of_auto,
        takes_callers_keys=(takes_callers_keys := any(target.takes_callers_key for target in targets.values())),
        keys=keys,
        metrics_key=digest_of(loaded.metrics_key.reveal()) if loaded.metrics_key is not None else None,
        tells_callers_apart=takes_callers_keys or keys is not None,
        turn_away=_turn_away_by(rights, state),
        pass_through=config.pass_through,
        adviser=_find_adviser(config, reachable, rules, state),
        shows_page=config.page,
    )


def _trace_terms(loaded: LoadedConfig) -> TraceTerms | None:
    """What the config says of traces; None where there are to be none."""
    settings = loaded.config.traces
    if settings.endpoint is None:
        return None
    from router.telemetry.genai import name_operation, name_provider  # loaded late: only traces need it

    return TraceTerms(
        endpoint=settings.endpoint,
        sample=settings.sample,
        headers=loaded.trace_headers,
        providers={plan.target.name: name_provider(_provider_of(plan), plan.adapter) for plan in loaded.targets},
        routes={
            (spec.name, operation): TracedRoute(f"/v1{path}", name_operation(operation, is_conversation=spec.is_conversation))
            for spec in SPECS.values()
            for operation, path in spec.paths.items()
        },
    )


def _provider_of(plan: TargetPlan) -> str:
    """Who serves a target's model, as far as its address shows it, or its name where that begins with the provider's."""
    return provider_of(plan.endpoint.base_url) or (plan.endpoint.model.partition("/")[0] if plan.adapter == "litellm" else "")


def _build_dispatcher(
    loaded: LoadedConfig,
    reachable: Mapping[str, Reachable],
    rights: Mapping[str, Rights] | None,
    state: State,
    clock: Callable[[], float],
) -> Dispatcher:
    """Who calls the targets. Where no caller has a limit, no request pays for the question."""
    max_bytes, limited = loaded.config.limits.max_response_bytes, rights or {}
    if not any(own.is_limited for own in limited.values()):
        return Dispatcher(reachable, max_response_bytes=max_bytes, clock=clock)
    return GuardedDispatcher(reachable, max_response_bytes=max_bytes, clock=clock, rights=limited, limits=state.caller_limits)


def _turn_away_by(rights: Mapping[str, Rights] | None, state: State) -> Callable[[Caller], None] | None:
    """Who refuses a caller by its head alone. Where no caller has such a limit, no request pays for the question."""
    if not any(own.requests_per_minute or own.tokens_per_minute for own in (rights or {}).values()):
        return None
    return partial(state.rates.turn_away, rights or {})


def _own_models(loaded: LoadedConfig) -> list[tuple[Target, str]]:
    """Every target that has a model, with the model's own name there."""
    return [(plan.target, plan.endpoint.model) for plan in loaded.targets if plan.endpoint.model]


def _find_adviser(config: Config, reachable: Mapping[str, Reachable], rules: Rules, state: State) -> Adviser | None:
    """Who gives a second opinion. A question to it has no part of its tier's own instructions."""
    asked = config.second_opinion
    if asked is None:
        return None
    target = reachable[asked.target]
    plain = replace(target, fit=target.fit._replace(instructions=""))
    hold = state.budgets.hold_question if state.budgets is not None else hold_nothing
    return Adviser(plain, rules, asked.max_wait_seconds, time.perf_counter, hold)


def limits_of(loaded: LoadedConfig) -> Limits:
    """The limits that a config sets, as a plan holds them: settings and fields of the same names."""
    names = {field.name for field in fields(Limits)}
    return Limits(**loaded.config.limits.model_dump(include=names))


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


def _open_ledger(loaded: LoadedConfig, address: str) -> SqliteWriter | None:
    """The writer of the file that entries and sessions share."""
    path = loaded.ledger_path
    if path is None:
        return None
    return _open_writer(path, LEDGER, address, lambda reason, lost: events.ledger_failed(reason=reason, lost=lost))


def _keep_entries(loaded: LoadedConfig, ledger: SqliteWriter | None) -> EntryStore:
    if ledger is None:
        return MemoryEntries(explain_row)
    kept = loaded.config.ledger
    return SqliteEntries(ledger, keep_days=kept.keep_days, keeps_places=kept.keep_places, explain=explain_row)


def _open_responses(loaded: LoadedConfig, address: str, *, on_disk: bool) -> ResponseStore:
    path = loaded.store_path
    if not on_disk or path is None:
        return MemoryResponses()
    writer = _open_writer(path, RESPONSES, address, lambda reason, lost: events.store_failed(reason=reason, lost=lost))
    return MemoryResponses(SqliteResponses(writer))


def _open_writer(path: Path, migrations: Migrations, address: str, on_failure: Callable[[str, int], None]) -> SqliteWriter:
    writer = SqliteWriter(path, migrations, on_failure=on_failure, address=address)
    if writer.migrated is not None:
        done = writer.migrated
        events.store_migrated(file=done.file, before=done.before, version=done.version, copy=done.copy.name)
    return writer
