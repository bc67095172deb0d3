"""The composition root: a config → a house with everything in it. The only place that knows every room."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from router.config.across import check_budgets, check_recorded
from router.config.faults import ConfigError, Fault, Known
from router.config.load import LoadedConfig
from router.config.models import SHIPPED_MODELS
from router.contract.caller import LOCAL
from router.contract.combine import LookWhen
from router.contract.exchange import Exchange, Link, Observer, Observers, Part
from router.contract.keys import OWN_ID, Key, digest_of, make_key
from router.contract.opinions import Policy
from router.contract.relay import Upstream
from router.contract.rights import BOTH_TIERS, Rights
from router.contract.spending import find_zone
from router.contract.stores import StoreUnusable
from router.contract.target import Target
from router.contract.tracing import TraceHeaders
from router.contract.words import NearBudget, Subagents, Tier
from router.decide.opinions import Rules
from router.dialects.histories import Histories
from router.dispatch.dispatch import Dispatcher
from router.dispatch.outgoing import Reachable
from router.house import House
from router.jobs.jobs import Jobs
from router.limits.budgets import Budgets, Terms
from router.limits.callers import CallerLimits
from router.limits.rates import CallerRates
from router.limits.whole import ALONE
from router.look.looks import KeepJob, Looks, keep_no_job
from router.loop.speedups import Speedups, is_plain_asked
from router.notices.alerts import Alerts
from router.notices.webhook import Webhook
from router.plan import Plan, State
from router.responses.keep import ResponseKeeper
from router.sense.exact import ExactCounter
from router.sense.models import ModelNames, models_behind
from router.sense.tokens import Calibration
from router.sessions.clients import BY_NAME
from router.sessions.ended_jobs import EndedJobs
from router.sessions.memory import SessionMemory
from router.sessions.supersede import Superseding
from router.settle.record import Recorder
from router.stores.shared import open_shared
from router.telemetry import events
from router.telemetry.log import DefectLog, RequestLog
from router.telemetry.tracing import Tracing
from router.upstream.pool import Pool
from router.wiring.built import Built
from router.wiring.key_watch import KeyWatch
from router.wiring.own_policies import Guarded, list_hooks, open_policy
from router.wiring.registry import (
    ADAPTERS,
    POLICIES,
    BackgroundPolicy,
    BudgetPolicy,
    CredentialPolicy,
    PlanThenEditPolicy,
    RightsPolicy,
    SubagentPolicy,
)
from router.wiring.reloader import Reloader
from router.wiring.revoking import Revoking
from router.wiring.secret_watch import SecretWatch
from router.wiring.sharing import make_tokens, observe_targets, recognise_repeats, show_others
from router.wiring.stores import (
    Files,
    keep_entries,
    name_ledger,
    open_jobs,
    open_ledger,
    open_responses,
    open_sessions,
    read_look_spending,
    read_spending,
)
from router.wiring.troubles import list_notices

if TYPE_CHECKING:
    from router.look.looking import Looker

_SETTLE_SECONDS = 1.0


def known_names() -> Known:
    return Known(
        policies={name: policy.Config for name, policy in POLICIES.items()},
        adapters=ADAPTERS,
        clients=tuple(BY_NAME),
        open_policy=open_policy,
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
        state = structs.replace(state, own_key=Key(own.id, LOCAL, own.digest))
        jobs = open_jobs(loaded, address, state.ended_jobs, state.files, on_disk=with_ledger)
        closing.push_async_callback(jobs.close)
        build = partial(build_plan, state=state, keep_job=lambda *told: jobs.keep(house, *told))
        house: House = House(build(loaded), state, accept_job=jobs.accept)
        if state.budgets.is_needed:
            with suppress(StoreUnusable):  # their callers are refused until it can be read
                state.budgets.recall(state.budgets.read_spending())
    except BaseException:
        with ThreadPoolExecutor(1) as thread:  # a loop may be running here, and nothing can be awaited
            thread.submit(asyncio.run, closing.aclose()).result()
        raise
    closing.push_async_callback(house.stop, _SETTLE_SECONDS)
    closing.push_async_callback(jobs.stop)
    closing.push_async_callback((webhook := Webhook()).close)
    reloader = Reloader(house, loaded, load, build, [check_prices]) if load is not None else None
    keys = None
    if reloader is not None and loaded.keys is not None:
        revoked = state.shared.revoked_keys if state.shared is not None else None
        keys = KeyWatch(reloader, Revoking(house, jobs), revoked=revoked)
    secrets = SecretWatch(reloader) if reloader is not None else None
    alerts = Alerts(notices := list_notices(house, keys), webhook)
    follow = partial(_follow, state, jobs, alerts)
    follow(loaded)
    if reloader is not None:
        reloader.applies.append(follow)
    ledger, others = loaded.ledger_path if with_ledger else None, show_others(state)
    return Built(house, ledger, own.text, reloader, notices, alerts, others, jobs, keys, secrets, closing)


def _follow(state: State, jobs: Jobs, alerts: Alerts, loaded: LoadedConfig) -> None:
    """Switch the parts that a config turns on and off. A part that was off begins empty."""
    chain, metrics, targets = state.observers, loaded.config.metrics, [plan.target.name for plan in loaded.targets]
    if chain.switch(Part.METRICS, on=metrics.on):
        state.metrics.start_again()
    state.metrics.follow(targets, callers=metrics.callers)
    if chain.switch(Part.PAGE, on=loaded.config.page):
        state.ring.start_again()
    chain.switch(Part.ALERTS, on=loaded.webhook is not None)
    alerts.follow(loaded.webhook)
    jobs.follow(loaded.job_webhooks)


def build_state(
    loaded: LoadedConfig,
    closing: AsyncExitStack,
    *,
    on_disk: bool = True,
    watchers: tuple[Observer, ...] = (),
    address: str = "",
) -> State:
    """What outlives a plan.

    Each part is closed before those above it: nothing may still be written to a store when it closes.
    """
    speedups = Speedups(plain=is_plain_asked(os.environ))
    closing.callback(speedups.off_loop.close)
    if (shared := open_shared(loaded.shared)) is not None:
        closing.push_async_callback(shared.close)
    files: Files = {}
    ledger = open_ledger(loaded, address, files) if on_disk else None
    if shared is not None and ledger is not None:
        shared.copy_ledger(ledger, loaded.config.ledger.keep_days)
        closing.push_async_callback(shared.stop_copying)
    closing.callback((repeats := recognise_repeats(shared)).close)
    tokens = make_tokens(path := loaded.ledger_path if on_disk else None, loaded.shared)
    closing.push_async_callback((memory := SessionMemory(open_sessions(ledger, shared), tokens=tokens)).close)
    closing.push_async_callback((responses := open_responses(loaded, address, files, on_disk=on_disk, shared=shared)).close)
    closing.push_async_callback((tracing := Tracing()).close)
    closing.push_async_callback((recorder := Recorder(keep_entries(loaded, ledger), plain=speedups.is_plain)).close)
    closing.callback((counter := ExactCounter(lambda reason: events.tokens_uncounted(reason=reason))).close)
    closing.push_async_callback((upstream := Pool(speedups)).close)
    allowance = (shared.open_allowance(partial(name_ledger, path)) if shared is not None else None) or ALONE
    live, running = observe_targets(shared, allowance), set[Exchange]()
    state = State(
        memory=memory,
        live=live,
        responses=responses,
        entries=recorder,
        counter=counter,
        calibration=Calibration(),
        upstream=upstream,
        speedups=speedups,
        histories=Histories(remembers=not speedups.is_plain),
        observers=Observers((), DefectLog().report),
        running=running,
        repeats=repeats,
        rates=CallerRates(allowance=allowance),
        budgets=Budgets(partial(read_spending, ledger) if ledger is not None else None, allowance=allowance),
        looks=Looks(partial(read_look_spending, ledger) if ledger is not None else None, allowance=allowance),
        files=files,
        tracing=tracing,
        shared=shared,
        ended_jobs=EndedJobs(loaded.config.jobs.keep_hours * 3_600),
    )
    state.observers.add(*list_links(state, recorder, watchers))
    return state


def list_links(state: State, recorder: Recorder, watchers: tuple[Observer, ...]) -> tuple[Link, ...]:
    """The chain: every part that observes requests or says something in their answers, in the order of their calls."""
    return (
        Link(Part.SESSIONS, state.memory),
        Link(Part.TARGETS, state.live),
        Link(Part.SUPERSEDING, Superseding(state.running)),
        Link(Part.RESPONSES, ResponseKeeper(state.responses)),
        Link(Part.RECORDS, recorder),
        Link(Part.LOG, RequestLog()),
        *(Link(Part.WATCHERS, watcher) for watcher in watchers),
        Link(Part.TRACES, state.tracing, is_on=False),
        Link(Part.METRICS, state.metrics, is_on=False),
        Link(Part.PAGE, state.ring, is_on=False),
        Link(Part.JOBS),
        Link(Part.ALERTS, is_on=False),
    )


def check_prices(loaded: LoadedConfig) -> None:
    """Re-check budgets when the key file changes: it may bring the first one."""
    faults: list[Fault] = []
    paths = {plan.target.name: f"tiers.{plan.target.tier}" for plan in loaded.targets}
    check_budgets(loaded.keys, loaded.targets, paths, loaded.config.ledger, faults)
    if faults:
        raise ConfigError(loaded.source, faults)


def _limit_callers(
    loaded: LoadedConfig, rights: Mapping[str, Rights] | None, state: State, policies: Sequence[Policy]
) -> CallerLimits:
    """Apply what a config says of limits. Raises `ConfigError` where another plan brings the first budget, without a ledger."""
    settings, budgets = loaded.config.budgets, state.budgets
    if rights is not None:
        if budgets.has_terms:
            check_recorded(loaded.keys, loaded.source, with_ledger=budgets.is_recorded)
        added = {plan.target.name: len(plan.fit.instructions.encode()) for plan in loaded.targets}
        budgets.follow(Terms(rights, find_zone(settings.time_zone), settings.warn_at, added))
    if state.shared is not None:
        is_limited = any(own.is_limited for own in (rights or {}).values())
        has_quotas = any(plan.target.quota is not None for plan in loaded.targets)
        state.shared.has_limits = is_limited or has_quotas or loaded.combine.look.when is not LookWhen.OFF
    return CallerLimits(rights, state.rates, budgets, list_hooks(policies))


def build_plan(
    loaded: LoadedConfig, state: State, clock: Callable[[], float] = time.perf_counter, keep_job: KeepJob = keep_no_job
) -> Plan:
    """What one config makes. It may take the place of another at any time (`House.swap`). The house has the same clock.

    `keep_job` keeps what a later look objects to.
    """
    config, upstream = loaded.config, state.upstream
    keys = loaded.keys.with_own(state.own_key) if loaded.keys is not None and state.own_key is not None else loaded.keys
    targets = {plan.target.name: plan.target for plan in loaded.targets}
    trace = state.tracing.follow(loaded.trace_terms)
    state.observers.switch(Part.TRACES, on=trace is not None)
    models = ModelNames(config.models, tuple(targets), SHIPPED_MODELS, models_behind(_own_models(loaded)))
    reachable = _reach(loaded, upstream, trace, models, hides_limits=keys is not None)
    rights = keys.rights if keys is not None else None
    policies = _choose_policies(loaded, rights, state.budgets)
    limits = _limit_callers(loaded, rights, state, policies)
    rules = _make_rules(loaded, policies, rights)
    if loaded.combine.is_on:
        state.combined[:] = [loaded.combine]

    @cache
    def open_looker() -> "Looker":
        from router.wiring.looking import look_over  # few configs and requests have looks

        return look_over(loaded, reachable, limits, state, clock, keep_job)

    plan = Plan(
        rules=rules,
        models=models,
        targets=targets,
        dispatcher=Dispatcher(reachable, max_response_bytes=config.limits.max_response_bytes, clock=clock, limits=limits),
        open_looker=open_looker,
        limits=config.limits,
        deadline_seconds=config.limits.deadline_seconds,
        keeps_text=config.ledger.keep_text,
        hears_lines=config.in_band_line,
        window_of_auto=config.window_of_auto,
        takes_callers_keys=any(target.takes_callers_key for target in targets.values()),
        keys=keys,
        metrics_key=digest_of(loaded.metrics_key.reveal()) if loaded.metrics_key is not None else None,
        caller_limits=limits,
        pass_through=config.pass_through,
        shows_page=config.page,
        background=(BackgroundPolicy(),),
        combiners=(PlanThenEditPolicy(),),
        jobs=structs.replace(
            config.jobs,
            share=config.limits.share if keys is not None else 1.0,
        ),
        combine=loaded.combine,
    )
    return plan.for_combining() if state.combined else plan


def _reach(
    loaded: LoadedConfig, upstream: Upstream, trace: TraceHeaders | None, models: ModelNames, *, hides_limits: bool
) -> dict[str, Reachable]:
    """The targets as dispatch reaches them."""
    # The registry's classes share no base: each takes its own settings, which the config has checked.
    adapters: Mapping[str, Any] = ADAPTERS
    return {
        plan.target.name: Reachable(
            plan.target,
            adapters[plan.adapter](
                structs.replace(plan.endpoint, is_traced=True) if trace else plan.endpoint, plan.settings, upstream
            ),
            plan.endpoint.model,
            plan.fit,
            plan.endpoint.api_key,
            plan.endpoint.over_websocket,
            plan.endpoint.secrets,
            trace,
            hides_limits=hides_limits,
            health_path=plan.endpoint.health_path,
            is_own_name=models.is_own,
        )
        for plan in loaded.targets
    }


def _make_rules(loaded: LoadedConfig, policies: tuple[Policy, ...], rights: Mapping[str, Rights] | None) -> Rules:
    economics = structs.replace(loaded.config.decision, preference=loaded.config.preference)
    return Rules(
        policies=policies,
        economics=economics,
        spill_over=loaded.config.spill_over,
        config_fingerprint=loaded.fingerprint,
        weights_fingerprint=loaded.weights_fingerprint,
        rights=rights,
    )


def _choose_policies(loaded: LoadedConfig, rights: Mapping[str, Rights] | None, budgets: Budgets) -> tuple[Policy, ...]:
    policies: dict[str, Any] = dict(POLICIES)
    chosen: list[Policy] = [policies[name](settings) for name, settings in loaded.policies]
    chosen += [Guarded(own) for own in loaded.own_policies]
    if rights is not None and any(own.tiers != BOTH_TIERS for own in rights.values()):
        chosen.append(RightsPolicy(rights))
    if any(plan.target.takes_callers_key for plan in loaded.targets):
        chosen.append(CredentialPolicy())
    near = loaded.config.budgets
    if near.near is NearBudget.LEAN and any(own.has_budget for own in (rights or {}).values()):
        chosen.append(BudgetPolicy(budgets.standing, near.warn_at))
    if loaded.config.subagents is not Subagents.AUTO:
        chosen.append(SubagentPolicy(Tier(loaded.config.subagents)))
    return tuple(chosen)


def _own_models(loaded: LoadedConfig) -> list[tuple[Target, str]]:
    """Every target that has a model, with the model's own name there."""
    return [(plan.target, plan.endpoint.model) for plan in loaded.targets if plan.endpoint.model]
