"""Finding, reading and checking `config.yaml`, reporting all faults at once."""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from msgspec import structs
from pydantic import ValidationError

from router.config.across import (
    block_warnings,
    check_budgets,
    check_combine,
    check_models,
    check_passed,
    check_policies,
    check_rules,
    check_store,
    fingerprint_of,
    proxy_warnings,
    warn_of_short_ledger,
)
from router.config.certificate import Certificate, CertificateUnusable, TlsPaths, check_pair, paths_of, warn_of_key
from router.config.cures import list_unshared
from router.config.faults import STAND_IN, Fault, Known, as_fault, leave_out_consequences, repair
from router.config.faults import ConfigError as ConfigError
from router.config.key_file import read_key_file
from router.config.model_facts import provider_of
from router.config.models import Config, KeysSettings
from router.config.outside import (
    check_alerts,
    check_metrics_key,
    check_shared,
    check_webhooks,
    name_replica,
    read_trace_headers,
)
from router.config.own_policies import OwnPolicy, is_own, open_own
from router.config.parsing import parse
from router.config.reading import ENV_FILE, EnvFileUnreadable, expand, is_open_to_others, read_config, read_env_file
from router.config.reading import default_text as default_text
from router.config.reading import find_config as find_config
from router.config.removed import say_removed, without_removed
from router.config.secrets import SecretChecker
from router.config.targets import TargetPlan, check_targets, read_blocks
from router.contract.combine import NOTHING, Combine
from router.contract.keys import KeyRing
from router.contract.opinions import PolicyConfig
from router.contract.relay import Headers
from router.contract.secret import Secret
from router.contract.shared import PostgresTerms, SharedTerms
from router.contract.tracing import TracedRoute, TraceTerms
from router.contract.webhooks import JobWebhook
from router.dialects.table import SPECS

_REFERENCE = re.compile(r"\benv:([A-Za-z_][A-Za-z0-9_]*)")
_MAX_FAULTS = 100
"""More are only counted: such a file is probably another program's."""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A valid config and what follows from it."""

    config: Config
    source: str
    folder: Path
    fingerprint: str
    targets: tuple[TargetPlan, ...]
    policies: tuple[tuple[str, PolicyConfig], ...]
    warnings: tuple[str, ...]
    own_policies: tuple[OwnPolicy, ...] = ()
    """Policies of the operator's own, with those that are switched off."""
    keys: KeyRing | None = None
    webhook: Secret | None = None
    job_webhooks: tuple[JobWebhook, ...] = ()
    """Receivers of an event when a background job ends."""
    shared: SharedTerms | None = None
    metrics_key: Secret | None = None
    trace_headers: Headers = field(default=(), repr=False)
    certificate: Certificate | None = None
    combine: Combine = NOTHING
    """With the text of the question to deep, where the config names a file."""
    personal_table: Path | None = None
    """Where an older release kept what marks taught, which the first start deletes."""
    _check_again: "Callable[[], LoadedConfig] | None" = field(default=None, repr=False, compare=False)

    @property
    def keys_path(self) -> Path | None:
        return keys_path_of(self.config, self.folder) if self.config.keys is not None else None

    @property
    def tls_paths(self) -> TlsPaths | None:
        tls = self.config.server.tls
        return paths_of(tls, self.folder) if tls is not None else None

    @property
    def secret_files(self) -> tuple[Path, ...]:
        """Files whose new contents `refresh` takes."""
        return (self.folder / ENV_FILE, *(self.tls_paths or ()))

    def refresh(self) -> "LoadedConfig":
        """Returns the config with its secrets and certificate as they are now. Raises `ConfigError` with every fault."""
        if self._check_again is None:
            return self
        found = self._check_again()
        return replace(
            self,
            targets=found.targets,
            webhook=found.webhook,
            job_webhooks=found.job_webhooks,
            metrics_key=found.metrics_key,
            trace_headers=found.trace_headers,
            certificate=found.certificate,
        )

    @property
    def shared_postgres(self) -> PostgresTerms | None:
        return self.shared.postgres if self.shared is not None else None

    @property
    def weights_fingerprint(self) -> str:
        return fingerprint_of(self.policies)

    @property
    def switched_off(self) -> list[str]:
        """Why own policies are not in use, a sentence each."""
        return [
            f"policy {own.name}: switched off. {own.source}: {own.trouble}" for own in self.own_policies if own.kind is None
        ]

    @property
    def is_simulated(self) -> bool:
        """Whether no target is a real model."""
        return not any(plan.is_model for plan in self.targets)

    @property
    def ledger_path(self) -> Path | None:
        return ledger_path_of(self.config, self.folder)

    @property
    def store_path(self) -> Path | None:
        """None if responses are only kept in memory."""
        path = self.config.store.path
        return self.folder / expand(path) if path else None

    @property
    def unshared(self) -> list[str]:
        return list_unshared(self.shared, has_ledger=self.ledger_path is not None)

    @property
    def trace_terms(self) -> TraceTerms | None:
        settings = self.config.traces
        if settings.endpoint is None:
            return None
        from router.telemetry.genai import name_operation, name_provider  # only traces need it

        return TraceTerms(
            endpoint=settings.endpoint,
            sample=settings.sample,
            headers=self.trace_headers,
            providers={plan.target.name: name_provider(_provider_of(plan), plan.adapter) for plan in self.targets},
            routes={
                (spec.name, operation): TracedRoute(
                    f"/v1{path}", name_operation(operation, is_conversation=spec.is_conversation)
                )
                for spec in SPECS.values()
                for operation, path in spec.paths.items()
            },
            instance=self.shared.replica if self.shared is not None else name_replica(),
            scheme="http" if self.config.server.tls is None else "https",
        )


def _provider_of(plan: TargetPlan) -> str:
    return provider_of(plan.endpoint.base_url) or (plan.endpoint.model.partition("/")[0] if plan.adapter == "litellm" else "")


def load_config(path: Path | None, known: Known) -> LoadedConfig:
    """Raises `ConfigError` with every fault."""
    return check_config(*read_config(path), known)


def ledger_path_of(config: Config, folder: Path) -> Path | None:
    path = config.ledger.path
    return folder / expand(path) if path else None


def keys_path_of(config: Config, folder: Path) -> Path:
    return folder / expand((config.keys or KeysSettings()).file)


def check_config(text: str, source: str, folder: Path, known: Known) -> LoadedConfig:
    """Raises `ConfigError` with every fault."""
    content, removed = without_removed(parse(text, source))
    faults: list[Fault] = []
    keys = _read_keys(text, folder, faults)
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        entries = leave_out_consequences(error.errors())
        if later := [as_fault(entry) for entry in entries if entry["loc"] == ("version",)]:
            raise ConfigError(source, later, content) from error  # of settings to come, the rest would be misread
        faults += [as_fault(entry) for entry in entries[:_MAX_FAULTS]]
        if len(entries) > _MAX_FAULTS:
            more = Fault("file", f"{len(entries) - _MAX_FAULTS} more problems")
            raise ConfigError(source, [*faults, more], content) from error
        with contextlib.suppress(ValidationError):  # irreparable parts are reported already
            faults += _check_rest(Config.model_validate(repair(content, entries)), source, folder, known, keys, faults)
        raise ConfigError(source, faults, content) from error
    checked = _check_blocks(config, source, folder, known, keys, faults)
    if faults:
        raise ConfigError(source, faults, content)
    # Policies of the operator's own stay as they are: opening one runs it.
    again = partial(check_config, text, source, folder, structs.replace(known, open_policy=None))
    lines = (say_removed("setting", name) for name in removed)
    table = folder / expand(str(removed.get("policies.learned.personal") or "personal.json"))
    return replace(checked, warnings=(*lines, *checked.warnings), personal_table=table, _check_again=again)


def _check_rest(
    config: Config, source: str, folder: Path, known: Known, keys: Mapping[str, str], told: Sequence[Fault]
) -> list[Fault]:
    """Faults in the well-formed rest, without consequences of those in `told`."""
    faulty, found = tuple(fault.path for fault in told), list[Fault]()
    _check_blocks(config, source, folder, known, keys, found)
    return [fault for fault in found if not fault.path.startswith(faulty)]


def _check_blocks(
    config: Config, source: str, folder: Path, known: Known, keys: Mapping[str, str], faults: list[Fault]
) -> LoadedConfig:
    """Check what the shape does not show. The result is valid only if no fault was added."""
    policies = check_policies(config.policies, folder, known, faults)
    own = _open_own(config.policies, folder, known, faults)
    check_rules(config.rules, policies, known, faults)
    blocks = read_blocks(config)
    targets = check_targets(blocks, config.limits, folder, known, faults, keys)
    named = {block.settings.name: block.settings for block in blocks if block.settings.name != STAND_IN}
    check_models(config.models, set(named), faults)
    check_passed(config.pass_through.items(), named, known, faults)
    check_store(config.store.path, config.ledger.path, folder, faults)
    checker = SecretChecker(faults, keys, needs_keys=known.needs_keys)
    ring = _read_ring(config, folder, faults)
    tls, certificate = _check_tls(config, folder, faults)
    paths = {block.settings.name: block.path for block in blocks}
    check_budgets(ring, [plan for plan in targets if plan.target.name in named], paths, config.ledger, faults)
    loaded = LoadedConfig(
        config=config,
        source=source,
        folder=folder,
        fingerprint=hashlib.blake2b(config.model_dump_json().encode(), digest_size=6).hexdigest(),
        targets=tuple(targets),
        policies=tuple(policies),
        own_policies=own,
        warnings=(),
        keys=ring,
        webhook=check_alerts(config.alerts.webhook, checker),
        job_webhooks=check_webhooks(config.webhooks, checker),
        shared=check_shared(config.shared, checker),
        metrics_key=check_metrics_key(config.metrics, checker),
        trace_headers=read_trace_headers(config.traces.headers, checker),
        certificate=certificate,
        combine=check_combine(config.combine, folder, faults),
    )
    warnings = block_warnings(blocks)
    if folder.is_dir():  # without a config, the first router makes it
        warnings += [warning for _, settings in policies for warning in settings.warnings]
    warnings += loaded.switched_off
    warnings += warn_of_short_ledger(ring, config.ledger)
    warnings += proxy_warnings(plan.endpoint.base_url for plan in targets if not known.adapters[plan.adapter].library)
    if keys and is_open_to_others(folder):
        warnings.append(f"{folder / ENV_FILE}: other users of this machine may read it; chmod 600 {folder / ENV_FILE}")
    return replace(loaded, warnings=(*warnings, *warn_of_key(tls)))


def _open_own(entries: Sequence[object], folder: Path, known: Known, faults: list[Fault]) -> tuple[OwnPolicy, ...]:
    own = [(f"policies[{index}]", entry) for index, entry in enumerate(entries) if is_own(entry)]
    return open_own(own, folder, known.open_policy, faults) if known.open_policy is not None else ()


def _read_ring(config: Config, folder: Path, faults: list[Fault]) -> KeyRing | None:
    """Faults of the key file become faults of the config."""
    if config.keys is None:
        return None
    try:
        return read_key_file(folder / expand(config.keys.file)).ring
    except ConfigError as error:
        faults += [Fault(f"keys.file ({config.keys.file}) {fault.path}", fault.problem, fault.hint) for fault in error.faults]
        return None


def _check_tls(config: Config, folder: Path, faults: list[Fault]) -> tuple[TlsPaths | None, Certificate | None]:
    if config.server.tls is None:
        return None, None
    paths = paths_of(config.server.tls, folder)
    try:
        return paths, check_pair(paths)
    except CertificateUnusable as error:
        faults.append(error.fault)
        return paths, None


def _read_keys(text: str, folder: Path, faults: list[Fault]) -> Mapping[str, str]:
    """Values from `.env` for variables that the config names and the environment lacks."""
    wanted = {name for name in _REFERENCE.findall(text) if not os.environ.get(name)}
    try:
        found = read_env_file(folder) if wanted else {}
    except EnvFileUnreadable as error:
        faults.append(Fault(ENV_FILE, str(error), f"fix or remove {folder / ENV_FILE}"))
        return {}
    faults += [
        Fault(ENV_FILE, f"{name}: its quote is not closed", f"close it in {folder / ENV_FILE}")
        for name in sorted(wanted & found.keys())
        if found[name][:1] in ("'", '"')
    ]
    return {name: value for name, value in found.items() if name in wanted}
