"""The targets of a config, checked and made ready to be built."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router.config.faults import Fault, Known, KnownAdapter, check_block, close_to
from router.config.model_facts import ModelFacts, read_facts
from router.config.models import Config, LimitsSettings, TargetSettings
from router.contract.relay import AdapterSettings, Endpoint, Tls
from router.contract.secret import Secret
from router.contract.target import Price, Speed, Target, Timeouts
from router.contract.words import Dialect, Feature, Tier
from router.dialects.bridge.quirks import quirks_of
from router.dialects.fitting import Fit

TYPICAL_SPEED = {
    Tier.FAST: Speed(ttft_seconds=0.3, tokens_per_second=600.0, prefill_tokens_per_second=20_000.0),
    Tier.DEEP: Speed(ttft_seconds=1.2, tokens_per_second=70.0, prefill_tokens_per_second=10_000.0),
}
"""What a target is taken to be before it is measured, when nobody said: the two tiers differ, or nothing would go fast."""


_FACTS = ("window_tokens", "price", "accepts")
"""What the table of models may say of a target, where its block does not."""


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """A target ready to be built: what it is, who reaches it, and how. `looked_up` names what its block left to the table."""

    target: Target
    adapter: str
    endpoint: Endpoint
    settings: AdapterSettings
    fit: Fit
    looked_up: tuple[str, ...] = ()


def check_targets(config: Config, folder: Path, known: Known, faults: list[Fault]) -> list[TargetPlan]:
    plans: list[TargetPlan] = []
    seen: set[str] = set()
    blocks = (*config.tiers.fast.targets, *config.tiers.deep.targets)
    facts = read_facts(_model_of(settings) for settings in blocks if _unstated(settings))
    for tier, block in ((Tier.FAST, config.tiers.fast), (Tier.DEEP, config.tiers.deep)):
        for index, settings in enumerate(block.targets):
            path = f"tiers.{tier}.targets[{index}]"
            if settings.name in ("auto", "fast", "deep"):
                faults.append(Fault(f"{path}.name", f'"{settings.name}" stands for a tier', "give the target another name"))
            elif settings.name in seen:
                faults.append(Fault(f"{path}.name", f'"{settings.name}" is taken', "give each target a name of its own"))
            seen.add(settings.name)
            plan = check_target(tier, settings, config.limits, folder, known, path, faults, facts, block.instructions)
            if plan is not None:
                plans.append(plan)
    return plans


def check_target(
    tier: Tier,
    settings: TargetSettings,
    limits: LimitsSettings,
    folder: Path,
    known: Known,
    path: str,
    faults: list[Fault],
    facts: Mapping[str, ModelFacts] = {},
    instructions: str = "",
) -> TargetPlan | None:
    adapter = known.adapters.get(settings.adapter)
    if adapter is None:
        hint = f"{close_to(settings.adapter, known.adapters)}known: {', '.join(known.adapters)}"
        faults.append(Fault(f"{path}.adapter", f'no adapter "{settings.adapter}"', hint))
        return None
    before = len(faults)
    if adapter.missing_extra:
        hint = f"pip install 'tandem-router[{adapter.missing_extra}]'"
        faults.append(Fault(f"{path}.adapter", f"{settings.adapter} needs a library that is not installed", hint))
    if adapter.needs_address and not settings.base_url:
        faults.append(Fault(f"{path}.base_url", "missing", "for example https://api.example.com/v1"))
    dialect = Dialect(settings.dialect) if settings.dialect else None
    if dialect is not None and dialect not in adapter.speaks:
        spoken = ", ".join(sorted(adapter.speaks))
        faults.append(Fault(f"{path}.dialect", f"{settings.adapter} does not speak {dialect}", f"it speaks: {spoken}"))
    key = Secret(settings.api_key) if settings.api_key else None
    if key is not None and key.is_reference and not key.reveal():
        problem = f"{key} is not set in the environment"
        if not any(fault.problem == problem for fault in faults):
            faults.append(Fault(f"{path}.api_key", problem, f"export {key.variable}=… before you start the router"))
    tls = _check_tls(settings, folder, path, faults)
    if tls is not None and adapter.library:
        faults.append(
            Fault(f"{path}.tls", f"not for adapter: {settings.adapter}", "SSL_CERT_FILE names authorities for all of it")
        )
    if settings.simulated and settings.adapter != "simulated":
        faults.append(Fault(f"{path}.simulated", "only for adapter: simulated"))
    extra = check_block(
        adapter.settings, settings.simulated if settings.adapter == "simulated" else {}, f"{path}.simulated", faults
    )
    if len(faults) > before or not isinstance(extra, AdapterSettings):
        return None
    spoken_here = (
        frozenset({dialect}) if dialect else (adapter.speaks if not adapter.needs_address else _default_dialect(adapter))
    )
    price = Price(**settings.price.model_dump()) if settings.price else None
    stated = {"window_tokens": settings.window_tokens, "price": price, "accepts": frozenset(settings.accepts)}
    looked_up = _look_up(settings, facts)
    values: dict[str, Any] = {**stated, **looked_up}
    target = Target(
        name=settings.name,
        tier=tier,
        speaks=spoken_here,
        accepts=values["accepts"] | {Feature.TEXT},
        window_tokens=values["window_tokens"],
        typical=_typical(tier, settings, extra),
        timeouts=Timeouts(
            settings.timeouts.connect_seconds or limits.connect_timeout_seconds,
            settings.timeouts.first_byte_seconds or limits.first_byte_timeout_seconds,
            settings.timeouts.stall_seconds or limits.stall_timeout_seconds,
        ),
        price=values["price"],
        takes_callers_key=key is not None and key.is_callers,
    )
    endpoint = Endpoint(_model_of(settings), settings.base_url, key, tls)
    fit = Fit(quirks_of(settings.base_url), settings.effort, instructions)
    return TargetPlan(target, settings.adapter, endpoint, extra, fit, tuple(looked_up))


def _model_of(settings: TargetSettings) -> str:
    return settings.model or settings.name


def _unstated(settings: TargetSettings) -> tuple[str, ...]:
    """What the table may be asked for: nothing of a simulated target, which is no model."""
    if settings.adapter == "simulated":
        return ()
    return tuple(name for name in _FACTS if name not in settings.model_fields_set)


def _look_up(settings: TargetSettings, facts: Mapping[str, ModelFacts]) -> dict[str, object]:
    known = facts.get(_model_of(settings))
    if known is None:
        return {}
    return {name: value for name in _unstated(settings) if (value := getattr(known, name)) is not None}


def _typical(tier: Tier, settings: TargetSettings, extra: AdapterSettings) -> Speed:
    """The usual pace: as stated, else (a simulated target) as it is told to behave, else what its tier is for."""
    stated: dict[str, float] = settings.typical.model_dump(exclude_none=True)
    behaves: dict[str, float] = extra.model_dump()
    figures = {**TYPICAL_SPEED[tier]._asdict(), **{name: behaves[name] for name in Speed._fields if name in behaves}, **stated}
    return Speed(**figures)


def _check_tls(settings: TargetSettings, folder: Path, path: str, faults: list[Fault]) -> Tls | None:
    if settings.tls is None:
        return None
    found: dict[str, str | None] = {}
    for name, value in settings.tls.model_dump().items():
        file = folder / Path(value).expanduser() if value else None
        if file is not None and not file.is_file():
            faults.append(Fault(f"{path}.tls.{name}", "no such file"))
        found[name] = str(file) if file else None
    return Tls(**found)


def _default_dialect(adapter: KnownAdapter) -> frozenset[Dialect]:
    return frozenset({Dialect.CHAT}) if Dialect.CHAT in adapter.speaks else adapter.speaks
