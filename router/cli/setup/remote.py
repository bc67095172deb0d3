"""What `tandem check --live` finds by asking targets and shared stores."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from router.cli.common import command_name, readable
from router.cli.figures import day_and_clock, duration, plural
from router.cli.setup.engines import Engine, Reached, describe
from router.cli.setup.findings import FIX, GOOD, NOTE, WARN, Finding
from router.cli.setup.live import ask_target, gather, look_at
from router.config.load import LoadedConfig
from router.config.targets import TargetPlan
from router.connect.recipe import known_clients, load_recipe
from router.contract.stores import SharedUnusable, StoreUnusable
from router.stores.look import PostgresLook, ValkeyLook, look_at_postgres, look_at_valkey
from router.stores.sqlite.forwarded import look_at_waiting
from router.telemetry import events
from router.wiring.build import build_house, known_names

_SKEW_SECONDS, _STORE_SKEW_SECONDS = 120.0, 5.0
_SLOW_SECONDS = 5.0


def look_at_targets(loaded: LoadedConfig, within_seconds: float, *, calls: bool) -> list[Finding]:
    # Opening shared stores is unnecessary and could change them.
    return asyncio.run(_look_at_targets(replace(loaded, shared=None), within_seconds, calls=calls))


async def _look_at_targets(loaded: LoadedConfig, within_seconds: float, *, calls: bool) -> list[Finding]:
    built = build_house(loaded, with_ledger=False)
    adapters, pool = known_names().adapters, built.house.state.upstream

    async def look(plan: TargetPlan) -> list[Finding]:
        name = f"{plan.target.tier} {plan.target.name}"
        if not plan.is_model:
            return [Finding("target", GOOD, f"{name}: simulated")]
        if plan.target.is_plan:
            return [
                Finding("target", NOTE, f"{name}: not asked: a plan can only be tried from its client", _say_how_to_try(plan))
            ]
        call = (lambda: ask_target(built.house, plan, within_seconds)) if calls else None
        reached = await look_at(pool, adapters[plan.adapter], plan.endpoint, within_seconds, call=call)
        return [
            _tell_target(name, plan, reached),
            *compare(name, plan, reached.engine),
            *_tell_clock(f"that of {name}", reached.skew_seconds, _SKEW_SECONDS),
        ]

    try:
        found = await gather("asking the targets", [look(plan) for plan in loaded.targets])
    finally:
        await built.close()
    return [finding for findings in found for finding in findings]


def _say_how_to_try(plan: TargetPlan) -> str:
    recipes = [load_recipe(client) for client in known_clients()]
    able = [recipe for recipe in recipes if recipe.login and recipe.login.vendor in plan.target.accepts_keys_of]
    return "; ".join(f"{command_name()} connect {one.client} --keep-login, then ask {one.name} something" for one in able)


def _tell_target(name: str, plan: TargetPlan, reached: Reached) -> Finding:
    if reached.problem:
        return Finding("target", FIX, f"{name}: {reached.problem}", reached.hint)
    parts = [f"knows {readable(plan.endpoint.model)}" if reached.models else "has no list of models"]
    parts += describe(reached.engine, plan.endpoint.model)
    if plan.endpoint.takes_callers_key:
        parts.append("not called: callers bring their own key")
    elif reached.ttft_seconds is None and not reached.models:
        text = f"{name}: has no list of models, so its key and model were not checked"
        return Finding("target", NOTE, text, "without --no-calls it is asked for a short answer, which costs a few tokens")
    if reached.ttft_seconds is None:
        return Finding("target", GOOD if reached.models else NOTE, f"{name}: {', '.join(parts)}")
    parts.append(f"first token after {duration(reached.ttft_seconds)}")
    is_slow = reached.ttft_seconds > max(_SLOW_SECONDS, 5 * plan.target.typical.ttft_seconds)
    hint = f"its typical.ttft_seconds is {plan.target.typical.ttft_seconds:g}; the first call is slow while a model loads"
    return Finding("target", NOTE if is_slow else GOOD, f"{name}: {', '.join(parts)}", hint if is_slow else "")


def compare(name: str, plan: TargetPlan, engine: Engine) -> list[Finding]:
    """Where a target's config disagrees with what its engine reports."""
    target, found = plan.target, []
    true = engine.window_of(plan.endpoint.model)
    if true is not None and target.window_tokens > true:
        text = f"{name}: its window_tokens is {target.window_tokens:,}, but its engine's window is {true:,} tokens"
        found.append(Finding("target", FIX, text, f"set window_tokens: {true}, or start the engine with a larger window"))
    allowed = target.quota.in_flight if target.quota is not None else None
    if engine.slots is not None and (allowed is None or allowed > engine.slots):
        limit = f"allows {allowed}" if allowed else "sets no limit"
        text = f"{name}: its engine serves {plural(engine.slots, 'request')} at a time, and the config {limit}"
        hint = f"set quota.in_flight: {engine.slots}, so that other requests go elsewhere or queue fairly"
        found.append(Finding("target", NOTE, text, hint))
    return found


def _tell_clock(whose: str, ahead_seconds: float | None, allowed_seconds: float) -> list[Finding]:
    if ahead_seconds is None or abs(ahead_seconds) < allowed_seconds:
        return []
    way = "ahead of" if ahead_seconds > 0 else "behind"
    return [Finding("clock", NOTE, f"{duration(abs(ahead_seconds))} {way} {whose}", "set this machine's clock (NTP)")]


def look_at_stores(loaded: LoadedConfig) -> list[Finding]:
    if (shared := loaded.shared) is None:
        return []
    events.set_up_logging(lambda *_: None)  # findings are reported here
    found = []
    if (valkey := shared.valkey) is not None:
        found += _explained("valkey", lambda: _tell_valkey(look_at_valkey(valkey)))
    if (postgres := shared.postgres) is not None:
        found += _explained("postgres", lambda: _tell_postgres(look_at_postgres(postgres)))
        found += _explained("copy", lambda: _look_at_copy(loaded))
    return found


def _explained(about: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """Missing packages are reported elsewhere."""
    try:
        return look()
    except ModuleNotFoundError:
        return []
    except StoreUnusable as error:
        is_refusal = isinstance(error, SharedUnusable)
        hint = "check its url in the config, and that it runs and takes connections from here"
        return [Finding(about, FIX, f"shared.{about}: {error}", hint, is_refusal=is_refusal)]


def _tell_valkey(look: ValkeyLook) -> list[Finding]:
    text = f"{look.version}, {look.latency_ms:.1f} ms for a trip, {plural(look.routers, 'router')} connected"
    clock = _tell_clock("that of shared.valkey", -look.clock_ahead_seconds, _STORE_SKEW_SECONDS)
    return [Finding("valkey", GOOD, text, figures=dict(look._asdict())), *clock]


def _tell_postgres(look: PostgresLook) -> list[Finding]:
    applied = say_numbers(look.migrations_applied) or "none, the database has no tables yet"
    text = f"{look.version}, {look.latency_ms:.1f} ms for a trip; migrations applied: {applied}"
    if look.ledger_rows is not None:
        newest = f", newest {day_and_clock(look.ledger_newest_at)}" if look.ledger_newest_at is not None else ""
        text += f"; ledger of all routers: {plural(look.ledger_rows, 'row')}{newest}"
    found = [Finding("postgres", GOOD, text, figures=dict(look._asdict()))]
    if look.migrations_missing:
        hint = f"{command_name()} check --migrate, or start a router"
        found.append(Finding("postgres", FIX, f"migrations missing: {say_numbers(look.migrations_missing)}", hint))
    return [*found, *_tell_clock("that of shared.postgres", -look.clock_ahead_seconds, _STORE_SKEW_SECONDS)]


def _look_at_copy(loaded: LoadedConfig) -> list[Finding]:
    path = loaded.ledger_path
    if path is None or not path.is_file():
        return []
    rows, since, lost = look_at_waiting(path)
    lag = max(0.0, time.time() - since) if since is not None else 0.0
    text = f"{plural(rows, 'row')} to copy, {duration(lag)} behind" if rows else "all rows are copied"
    found = [
        Finding(
            "copy",
            NOTE if rows else GOOD,
            f"the ledger of this machine: {text}",
            figures={"waiting_rows": rows, "lag_seconds": lag, "lost_rows": lost},
        )
    ]
    if lost:
        found.append(Finding("copy", WARN, f"{plural(lost, 'row')} lost: too old before they could be copied, or refused"))
    return found


def say_numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(f"{number:04}" for number in numbers)
