"""The targets of a config, checked and ready to be built."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import asdict

from router.config.faults import STAND_IN, Fault, Known, KnownAdapter, check_block, close_to, missing_extra
from router.config.model_facts import ModelFacts, provider_of, read_facts
from router.config.models import Config
from router.config.secrets import SecretChecker
from router.config.target_settings import TargetSettings, find_instructions
from router.contract.extras import how_to_install
from router.contract.limits import Limits
from router.contract.relay import AdapterSettings, Endpoint, ExtraField, Tls, is_local
from router.contract.secret import Secret
from router.contract.target import Price, Speed, Target, Timeouts, price_of_plan
from router.contract.words import DEFAULT_DIALECT, Dialect, Feature, Tier, Vendor
from router.dialects.fitting import Fit
from router.dialects.hosts import PLAN_DIALECTS, caches_when_asked, quirks_of, vendor_at
from router.dialects.table import SPECS

TYPICAL_SPEED = {
    Tier.FAST: Speed(ttft_seconds=0.3, tokens_per_second=600.0, prefill_tokens_per_second=20_000.0),
    Tier.DEEP: Speed(ttft_seconds=1.2, tokens_per_second=70.0, prefill_tokens_per_second=10_000.0),
}
"""Assumed before a target is measured. The tiers must differ, or no turn would go to fast."""


_TRANSPORT, _BILLING, _PLAN = "upstream_transport", "billing", "plan"
_ACCEPTED_BY_PLANS = frozenset(Feature) - {Feature.COMPLETIONS, Feature.CACHE_CONTROL}
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]|\{\{|os\.environ")
_CALLS = ("/chat/completions", "/completions", "/responses", "/messages/count_tokens", "/messages", "/models", "/embeddings")
"""Paths of calls, longer ones before their endings."""
_FACTS = ("window_tokens", "price", "accepts")
"""What the table of models can fill in."""


class TargetPlan(Struct, frozen=True):
    """A target ready to be built. `looked_up` names what came from the table."""

    target: Target
    adapter: str
    endpoint: Endpoint
    settings: AdapterSettings
    fit: Fit
    looked_up: tuple[str, ...] = ()
    is_model: bool = True
    """Whether a real model answers."""


class TargetBlock(Struct, frozen=True):
    """A target's block and its place in the config."""

    tier: Tier
    index: int
    settings: TargetSettings
    instructions: str = ""
    """Those of its tier."""

    @property
    def path(self) -> str:
        return f"tiers.{self.tier}.targets[{self.index}]"

    @property
    def model(self) -> str:
        return self.settings.model or self.settings.name

    @property
    def table_name(self) -> tuple[str, str]:
        """Its provider, as far as the address shows, and its name in the table of models."""
        return provider_of(self.settings.base_url), self.model


def check_targets(
    blocks: Sequence[TargetBlock],
    limits: Limits,
    folder: Path,
    known: Known,
    faults: list[Fault],
    keys: Mapping[str, str],
) -> list[TargetPlan]:
    """Check every target. Adds to `faults`; returns the plans of those without."""
    check_names(blocks, faults)
    facts = read_facts(block.table_name for block in blocks if _unstated(block, known.adapters.get(block.settings.adapter)))
    checker = TargetChecker(known, folder, faults, keys, limits, facts)
    return [plan for block in blocks if (plan := checker.check(block)) is not None]


def read_blocks(config: Config) -> list[TargetBlock]:
    return [
        TargetBlock(tier, index, settings, find_instructions(block.instructions))
        for tier, block in ((Tier.FAST, config.tiers.fast), (Tier.DEEP, config.tiers.deep))
        for index, settings in enumerate(block.targets)
    ]


def read_prices(blocks: Sequence[TargetBlock], known: Known) -> dict[str, Price]:
    """Prices by target, without checking anything else: keys may be missing."""
    adapters = {block.settings.name: known.adapters.get(block.settings.adapter) for block in blocks}
    facts = read_facts(block.table_name for block in blocks if "price" in _unstated(block, adapters[block.settings.name]))
    prices: dict[str, Price] = {}
    for block in blocks:
        name, stated = block.settings.name, block.settings.price
        adapter, of_table = adapters[name], facts.get(block.table_name)
        if block.settings.billing == _PLAN:
            prices[name] = price_of_plan(stated)
        elif stated is not None:
            prices[name] = stated
        elif "price" in _unstated(block, adapter) and of_table is not None and of_table.price is not None:
            prices[name] = of_table.price
    return prices


def check_names(blocks: Iterable[TargetBlock], faults: list[Fault]) -> None:
    seen: set[str] = set()
    for block in blocks:
        name = block.settings.name
        if name == STAND_IN:
            continue
        if name in ("auto", *Tier):
            faults.append(Fault(f"{block.path}.name", f'"{name}" is the name of a tier', "give the target another name"))
        elif name in seen:
            faults.append(Fault(f"{block.path}.name", f'duplicate name "{name}"', "give each target a name of its own"))
        seen.add(name)


class TargetChecker(Struct, frozen=True):
    known: Known
    folder: Path
    """Base of relative paths."""
    faults: list[Fault]
    keys: Mapping[str, str] = field(default_factory=dict)
    """Values from `.env` for unset variables."""
    limits: Limits = field(default_factory=Limits)
    facts: Mapping[tuple[str, str], ModelFacts] = field(default_factory=dict)

    def check(self, block: TargetBlock) -> TargetPlan | None:
        """The plan of a target, or None if it has faults."""
        before = len(self.faults)
        adapter = self._find_adapter(block)
        if adapter is None:
            return None
        self._check_address(block, adapter)
        dialect = self._check_dialect(block, adapter)
        secrets = SecretChecker(self.faults, self.keys, needs_keys=self.known.needs_keys)
        key = secrets.check(f"{block.path}.api_key", block.settings.api_key) if block.settings.api_key else None
        headers, query = self._check_extra(block, adapter, secrets, key)
        tls = self._check_tls(block, adapter)
        over_websocket = self._check_transport(block, adapter, dialect)
        vendors = self._check_billing(block, adapter, dialect, key)
        options = self._check_options(block, adapter)
        if len(self.faults) > before or options is None:
            return None
        looked_up = _look_up(block, adapter, self.facts)
        target = _make_target(block, adapter, dialect, options, self.limits, {**looked_up, "accepts_keys_of": vendors})
        return TargetPlan(
            target=target,
            adapter=adapter.name,
            endpoint=Endpoint(block.model, block.settings.base_url, key, tls, over_websocket, headers, query),
            settings=options,
            fit=_make_fit(block, adapter, target),
            looked_up=tuple(looked_up),
            is_model=adapter.is_model,
        )

    def _add(self, block: TargetBlock, name: str, problem: str, hint: str = "") -> None:
        self.faults.append(Fault(f"{block.path}.{name}", problem, hint))

    def _find_adapter(self, block: TargetBlock) -> KnownAdapter | None:
        name, adapters = block.settings.adapter, self.known.adapters
        adapter = adapters.get(name)
        if adapter is None:
            self._add(block, "adapter", f'unknown adapter "{name}"', f"{close_to(name, adapters)}known: {', '.join(adapters)}")
        elif extra := missing_extra(adapter):
            self._add(block, "adapter", f"{name} needs a library that is not installed", how_to_install(extra))
        return adapter

    def _check_address(self, block: TargetBlock, adapter: KnownAdapter) -> None:
        url = block.settings.base_url
        if adapter.needs_address and not url:
            self._add(block, "base_url", "missing", "for example https://api.example.com/v1")
        for name, value in (("base_url", url), ("model", block.settings.model)):
            if value and _VARIABLE.search(value):
                hint = "write the value; only api_key takes env:NAME"
                self._add(block, name, "contains a variable, which is not expanded here", hint)
        if url and (ending := next((path for path in _CALLS if url.rstrip("/").endswith(path)), "")):
            right = url.rstrip("/").removesuffix(ending)
            right = right.removesuffix("/v1") if DEFAULT_DIALECT not in adapter.speaks else right
            self._add(block, "base_url", f"ends in {ending}, the path of a call, which Tandem adds itself", f"use {right}")
        if url and DEFAULT_DIALECT not in adapter.speaks and urlsplit(url).hostname == "api.openai.com":
            self._add(block, "adapter", "api.openai.com does not speak Messages", "set adapter: openai_http")

    def _check_dialect(self, block: TargetBlock, adapter: KnownAdapter) -> Dialect | None:
        dialect = Dialect(block.settings.dialect) if block.settings.dialect else None
        if dialect is not None and dialect not in adapter.speaks:
            spoken = ", ".join(sorted(adapter.speaks))
            self._add(block, "dialect", f"{adapter.name} does not speak {dialect}", f"it speaks: {spoken}")
        return dialect

    def _check_extra(
        self, block: TargetBlock, adapter: KnownAdapter, secrets: SecretChecker, key: Secret | None
    ) -> tuple[tuple[ExtraField, ...], tuple[ExtraField, ...]]:
        settings = block.settings
        for name in ("headers", "query"):
            if getattr(settings, name) and name not in adapter.takes_extra:
                self._add(block, name, f"not supported by adapter: {adapter.name}", "remove it")
        headers = secrets.check_headers(f"{block.path}.headers", settings.headers, adapter, key)
        return tuple(headers), tuple(secrets.check_query(f"{block.path}.query", settings.query))

    def _check_tls(self, block: TargetBlock, adapter: KnownAdapter) -> Tls | None:
        if block.settings.tls is None:
            return None
        if adapter.library:
            self._add(block, "tls", f"not supported by adapter: {adapter.name}", "set SSL_CERT_FILE instead")
        files = {name: self.folder / os.path.expanduser(value) for name, value in asdict(block.settings.tls).items() if value}
        for name, file in files.items():
            if not _is_file(file):
                self._add(block, f"tls.{name}", "no such file")
        return Tls(**{name: str(file) for name, file in files.items()})

    def _check_transport(self, block: TargetBlock, adapter: KnownAdapter, dialect: Dialect | None) -> bool:
        if block.settings.upstream_transport != "websocket":
            return False
        if not adapter.has_sockets:
            able = ", ".join(name for name, known in self.known.adapters.items() if known.has_sockets)
            self._add(block, _TRANSPORT, f"websocket is not supported by adapter: {adapter.name}", f"only by: {able}")
        elif not all(SPECS[spoken].has_socket for spoken in _spoken(adapter, dialect)):
            able = ", ".join(name for name in sorted(adapter.speaks) if SPECS[name].has_socket)
            self._add(block, _TRANSPORT, "websocket is not supported for this target's dialect", f"set dialect: {able}")
        return True

    def _check_billing(
        self, block: TargetBlock, adapter: KnownAdapter, dialect: Dialect | None, key: Secret | None
    ) -> frozenset[Vendor]:
        """Whose credentials the target takes of its callers."""
        settings = block.settings
        is_callers, is_plan = key is not None and key.is_callers, settings.billing == _PLAN
        if settings.accepts_keys_of and not is_callers:
            self._add(block, "accepts_keys_of", "only for targets that take callers' keys", "set api_key: caller, or remove it")
        if settings.use_up_to is not None and not is_plan:
            self._add(block, "use_up_to", "only for a target with billing: plan", "set billing: plan, or remove it")
        if is_plan and not is_callers:
            self._add(block, _BILLING, "a plan is paid by the login of each caller", "set api_key: caller")
        vendors = _vendors_of(block, adapter) if is_callers else frozenset()
        if is_plan and is_callers:
            self._check_plan(block, adapter, dialect, vendors)
        return vendors

    def _check_plan(
        self, block: TargetBlock, adapter: KnownAdapter, dialect: Dialect | None, vendors: frozenset[Vendor]
    ) -> None:
        """A plan is one vendor's, is reached in that vendor's own dialect, and gets nothing but what its client sent."""
        settings, url = block.settings, urlsplit(block.settings.base_url)
        vendor = adapter.plans_of
        if vendor is None:
            able = ", ".join(name for name, known in self.known.adapters.items() if known.plans_of)
            self._add(block, _BILLING, f"plan is not supported by adapter: {adapter.name}", f"only by: {able}")
            return
        needed = PLAN_DIALECTS[vendor]
        if vendors != {vendor}:
            hint = f"set accepts_keys_of: [{vendor}] if requests for a plan of {vendor.label} go to this address"
            self._add(block, _BILLING, f"this address is not known to take logins of {vendor.label}", hint)
        if _spoken(adapter, dialect) != {needed}:
            self._add(block, "dialect", f"a plan of {vendor.label} speaks {needed}", f"set dialect: {needed}")
        if url.scheme != "https" and not is_local(url.hostname or ""):
            self._add(block, "base_url", "a login must not be sent unencrypted", "use https://")
        for name in ("headers", "query", "effort"):
            if getattr(settings, name):
                self._add(block, name, "not for a target with billing: plan, whose requests pass unchanged", "remove it")

    def _check_options(self, block: TargetBlock, adapter: KnownAdapter) -> AdapterSettings | None:
        checked = check_block(adapter.Settings, block.settings.options or {}, f"{block.path}.options", self.faults)
        return checked if isinstance(checked, AdapterSettings) else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # an impossible name, or an inaccessible folder
        return False


def _make_target(
    block: TargetBlock,
    adapter: KnownAdapter,
    dialect: Dialect | None,
    options: AdapterSettings,
    limits: Limits,
    looked_up: Mapping[str, object],
) -> Target:
    settings, timeouts = block.settings, block.settings.timeouts
    is_plan = settings.billing == _PLAN
    stated = {"window_tokens": settings.window_tokens, "price": settings.price, "accepts": frozenset(settings.accepts)}
    values: dict[str, Any] = {**stated, **looked_up}
    if settings.billing == _PLAN and "accepts" not in settings.model_fields_set:
        values["accepts"] = _ACCEPTED_BY_PLANS  # whatever its own client sends
    return Target(
        name=settings.name,
        tier=block.tier,
        speaks=_spoken(adapter, dialect),
        accepts=values["accepts"] | {Feature.TEXT},
        window_tokens=values["window_tokens"],
        typical=_typical(block, options),
        timeouts=Timeouts(
            timeouts.get("connect_seconds", limits.connect_timeout_seconds),
            timeouts.get("first_byte_seconds", limits.first_byte_timeout_seconds),
            timeouts.get("stall_seconds", limits.stall_timeout_seconds),
            bounds_whole_answers="first_byte_seconds" in timeouts,
        ),
        price=price_of_plan(values["price"]) if is_plan else values["price"],
        list_price=values["price"] if is_plan else None,
        use_up_to=settings.use_up_to,
        takes_callers_key=settings.api_key is not None and Secret(settings.api_key).is_callers,
        accepts_keys_of=values["accepts_keys_of"],
        is_plan=is_plan,
        quota=settings.quota,
        model=block.model,
    )


def _make_fit(block: TargetBlock, adapter: KnownAdapter, target: Target) -> Fit:
    url, model = block.settings.base_url, block.model
    asks = Feature.CACHE_CONTROL in target.accepts or adapter.caches_when_asked(model)
    asks = asks or any(caches_when_asked(url, model, dialect) for dialect in target.speaks)
    instructions = "" if target.is_plan else block.instructions
    return Fit(quirks_of(url), block.settings.effort, instructions, asks and not target.is_plan)


def _vendors_of(block: TargetBlock, adapter: KnownAdapter) -> frozenset[Vendor]:
    """As the config names them, by the address or, on this machine or network, by the adapter. Other addresses are gateways."""
    settings, url = block.settings, block.settings.base_url
    if settings.accepts_keys_of:
        return frozenset(settings.accepts_keys_of)
    vendor = vendor_at(url)
    if vendor is None and (not url or is_local(urlsplit(url).hostname or "")):
        by_model = next((known for known in Vendor if adapter.library and block.model.startswith(f"{known}/")), None)
        vendor = by_model or (adapter.plans_of if settings.billing == _PLAN else adapter.vendor)
    return frozenset() if vendor is None else frozenset({vendor})


def _spoken(adapter: KnownAdapter, dialect: Dialect | None) -> frozenset[Dialect]:
    if dialect is not None:
        return frozenset({dialect})
    is_default = adapter.needs_address and DEFAULT_DIALECT in adapter.speaks
    return frozenset({DEFAULT_DIALECT}) if is_default else adapter.speaks


def _unstated(block: TargetBlock, adapter: KnownAdapter | None) -> tuple[str, ...]:
    """Facts to look up: only of real models, and only those that the block leaves out."""
    if adapter is None or not adapter.is_model:
        return ()
    return tuple(name for name in _FACTS if name not in block.settings.model_fields_set)


def _look_up(block: TargetBlock, adapter: KnownAdapter, facts: Mapping[tuple[str, str], ModelFacts]) -> dict[str, object]:
    known = facts.get(block.table_name)
    if known is None:
        return {}
    return {name: value for name in _unstated(block, adapter) if (value := getattr(known, name)) is not None}


def _typical(block: TargetBlock, options: AdapterSettings) -> Speed:
    """The usual speed: as stated, from its options, or its tier's."""
    return (options.typical_speed() or TYPICAL_SPEED[block.tier])._replace(**block.settings.typical)
