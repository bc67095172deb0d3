"""Finding, reading and checking `config.yaml`. All faults are reported at once, each with its path and what would be right."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from router.config.alerts import check_webhook
from router.config.budgets import check_budgets, warn_of_short_ledger
from router.config.certificate import TlsPaths, check_pair, paths_of, warn_of_key
from router.config.env_file import NAME as ENV_FILE
from router.config.env_file import EnvFileUnreadable, is_open_to_others, read_env_file
from router.config.faults import ConfigError as ConfigError
from router.config.faults import Fault, Known, as_fault, check_block, close_to
from router.config.key_file import read_key_file
from router.config.models import SHIPPED_MODELS, Config, DecisionSettings, MetricsSettings
from router.config.named_targets import check_asked, check_passed, salvage_passed, say_who_is_asked, warn_of_slowness
from router.config.parsing import parse
from router.config.reading import default_text as default_text
from router.config.reading import expand, read_config
from router.config.reading import find_config as find_config
from router.config.replaced import find_replaced, warn_of_removed
from router.config.salvage import salvage_targets, salvage_text
from router.config.secrets import SecretChecker
from router.config.shared import check_shared
from router.config.targets import TargetChecker, TargetPlan, check_names, check_targets, read_blocks, read_prices
from router.config.trace_headers import read_trace_headers
from router.config.warn import block_warnings, proxy_warnings
from router.config.webhooks import check_webhooks
from router.contract.keys import KeyRing
from router.contract.opinions import PolicyConfig
from router.contract.relay import Headers
from router.contract.secret import Secret
from router.contract.shared import PostgresTerms, SharedTerms
from router.contract.target import Price
from router.contract.webhooks import JobWebhook
from router.contract.words import Tier

_RULES = "rules"
"""The policy that follows `rules:`."""
_REFERENCE = re.compile(r"\benv:([A-Za-z_][A-Za-z0-9_]*)")
_MAX_FAULTS = 100
"""More are only counted: a file with that many is probably another program's."""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A config that passed, with all that follows from it."""

    config: Config
    source: str
    folder: Path
    fingerprint: str
    targets: tuple[TargetPlan, ...]
    policies: tuple[tuple[str, PolicyConfig], ...]
    warnings: tuple[str, ...]
    keys: KeyRing | None = None
    """The keys that callers need; None if they need none."""
    webhook: Secret | None = None
    """Where to send word of troubles."""
    job_webhooks: tuple[JobWebhook, ...] = ()
    """Who is sent an event when a background job ends."""
    shared: SharedTerms | None = None
    """What this router shares with others; None if nothing."""
    metrics_key: Secret | None = None
    """What opens `/metrics` alone, where callers need keys."""
    trace_headers: Headers = field(default=(), repr=False)
    """What goes with every request to the collector of traces."""

    @property
    def keys_path(self) -> Path | None:
        """Where the keys are, if callers need one."""
        keys = self.config.keys
        return self.folder / expand(keys.file) if keys is not None else None

    @property
    def tls_paths(self) -> TlsPaths | None:
        """Where the router's own certificate and key are, if it serves HTTPS."""
        tls = self.config.server.tls
        return paths_of(tls, self.folder) if tls is not None else None

    @property
    def shared_postgres(self) -> PostgresTerms | None:
        """The database that routers share, if there is one."""
        return self.shared.postgres if self.shared is not None else None

    @property
    def weights_fingerprint(self) -> str:
        """Which weights read the words; empty if none do."""
        return _fingerprint_of(self.policies)

    @property
    def is_simulated(self) -> bool:
        """Whether no target of this config is a real model."""
        return not any(plan.is_model for plan in self.targets)

    @property
    def ledger_path(self) -> Path | None:
        """Where the ledger is, if there is one."""
        return _ledger_path(self.config, self.folder)

    @property
    def second_opinion(self) -> str:
        """Who is asked for a second opinion, as text; empty if nobody is."""
        return say_who_is_asked(self.config.second_opinion, self.targets)

    @property
    def store_path(self) -> Path | None:
        """Where responses are stored, if anywhere but in memory."""
        path = self.config.store.path
        return self.folder / expand(path) if path else None


def load_config(path: Path | None, known: Known) -> LoadedConfig:
    """Read and check a config. Raises `ConfigError` with every fault."""
    return check_config(*read_config(path), known)


def load_ledger_path(path: Path | None, known: Callable[[], Known]) -> Path | None:
    """Where the ledger of a config is. Commands that only look back need no key and no target, so these are not checked.

    Raises `ConfigError`; the known names are asked for only then.
    """
    text, source, folder = read_config(path)
    try:
        config = Config.model_validate(parse(text, source))
    except ValidationError:
        return check_config(text, source, folder, known()).ledger_path  # which says all that is wrong
    return _ledger_path(config, folder)


def load_prices(path: Path | None, known: Known) -> dict[str, Price]:
    """What the targets of a config cost, by name. Of a config with faults, nothing."""
    try:
        text, source, _ = read_config(path)
        return read_prices(read_blocks(Config.model_validate(parse(text, source))), known)
    except (ConfigError, ValidationError):
        return {}


def _ledger_path(config: Config, folder: Path) -> Path | None:
    path = config.ledger.path
    return folder / expand(path) if path else None


def check_config(text: str, source: str, folder: Path, known: Known) -> LoadedConfig:
    """Check the text of a config."""
    content = parse(text, source)
    faults: list[Fault] = []
    keys = _read_keys(text, folder, faults)
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        entries = _telling(error.errors())
        faults += [find_replaced(entry, content) or as_fault(entry) for entry in entries[:_MAX_FAULTS]]
        if len(entries) > _MAX_FAULTS:
            more = Fault("file", f"{len(entries) - _MAX_FAULTS} more problems")
            raise ConfigError(source, [*faults, more], content) from error
        _check_what_can_be(content, folder, known, faults, keys)
        raise ConfigError(source, faults, content) from error
    policies = _check_policies(config.policies, folder, known, faults)
    _check_rules(config.rules, policies, known, faults)
    blocks = read_blocks(config)
    targets = check_targets(blocks, config.limits, folder, known, faults, keys)
    named = {block.settings.name: block.settings for block in blocks}
    _check_models(config.models, set(named), faults)
    check_asked(config.second_opinion.target if config.second_opinion else None, named, faults)
    check_passed(config.pass_through.items(), named, known, faults)
    _check_store(config.store.path, config.ledger.path, folder, faults)
    webhook = check_webhook(config.alerts.webhook, keys, faults)
    job_webhooks = check_webhooks(config.webhooks, keys, faults)
    shared = check_shared(config.shared, keys, faults)
    trace_headers = read_trace_headers(config.traces.headers, SecretChecker(faults, keys))
    ring = _read_ring(config, folder, faults)
    metrics_key = _check_metrics_key(config.metrics, keys, faults)
    tls = _check_tls(config, folder, faults)
    check_budgets(ring, targets, {block.settings.name: block.path for block in blocks}, config.ledger, faults)
    if faults:
        raise ConfigError(source, faults, content)
    warnings = warn_of_removed(content) + block_warnings(blocks) + warn_of_slowness(config.second_opinion, targets)
    warnings += [warning for _, settings in policies for warning in settings.warnings]
    warnings += warn_of_short_ledger(ring, config.ledger)
    warnings += proxy_warnings(plan.endpoint.base_url for plan in targets if not known.adapters[plan.adapter].library)
    if keys and is_open_to_others(folder):
        warnings.append(f"{folder / ENV_FILE}: other users of this machine may read it; chmod 600 {folder / ENV_FILE}")
    warnings += warn_of_key(tls)
    if not _fits(config, policies):
        defaults = DecisionSettings()
        ours = {"base_rate": defaults.base_rate, "personal_log_odds": defaults.personal_log_odds}
        config = config.model_copy(update={"decision": config.decision.model_copy(update=ours)})
        warnings.append(
            "decision.base_rate and decision.personal_log_odds: fitted to other weights, so they are not used;"
            " tandem tune --apply fits them again"
        )
    return LoadedConfig(
        config=config,
        source=source,
        folder=folder,
        fingerprint=hashlib.blake2b(config.model_dump_json().encode(), digest_size=6).hexdigest(),
        targets=tuple(targets),
        policies=tuple(policies),
        warnings=tuple(warnings),
        keys=ring,
        webhook=webhook,
        job_webhooks=job_webhooks,
        shared=shared,
        metrics_key=metrics_key,
        trace_headers=trace_headers,
    )


def _read_ring(config: Config, folder: Path, faults: list[Fault]) -> KeyRing | None:
    """The keys that callers need. Every fault of their file is one of the config."""
    if config.keys is None:
        return None
    try:
        return read_key_file(folder / expand(config.keys.file)).ring
    except ConfigError as error:
        faults += [Fault(f"keys.file ({config.keys.file}) {fault.path}", fault.problem, fault.hint) for fault in error.faults]
        return None


def _check_metrics_key(metrics: MetricsSettings, keys: Mapping[str, str], faults: list[Fault]) -> Secret | None:
    """A variable that holds a key. A key in the config itself would be shown wherever the config is."""
    if metrics.key is None or not metrics.on:
        return None
    if not Secret(metrics.key).is_reference:
        faults.append(Fault("metrics.key", "must name a variable", "write env:NAME, and put the key into the variable NAME"))
        return None
    return SecretChecker(faults, keys).check("metrics.key", metrics.key)


def _check_tls(config: Config, folder: Path, faults: list[Fault]) -> TlsPaths | None:
    if config.server.tls is None:
        return None
    paths = paths_of(config.server.tls, folder)
    faults += check_pair(paths)
    return paths


def _telling(entries: list[Any]) -> list[Any]:
    """Leave out what only follows from another fault: a list that is empty because its one entry is wrong."""
    places = [entry["loc"] for entry in entries]
    return [
        entry
        for entry in entries
        if entry["type"] != "too_short"
        or not any(len(place) > len(entry["loc"]) and place[: len(entry["loc"])] == entry["loc"] for place in places)
    ]


def _read_keys(text: str, folder: Path, faults: list[Fault]) -> Mapping[str, str]:
    """What `.env` has for the variables that the config names and the environment does not have."""
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


def _check_what_can_be(
    content: Mapping[str, object], folder: Path, known: Known, faults: list[Fault], keys: Mapping[str, str]
) -> None:
    """Check the parts of a faulty file that are well formed, so that all faults are reported at once."""
    policies = content.get("policies")
    if isinstance(policies, list):
        _check_policies(policies[:_MAX_FAULTS], folder, known, faults)
    rules = content.get("rules")
    if isinstance(rules, list):
        _check_rules(rules[:_MAX_FAULTS], [], known, faults)
    found: list[Fault] = []
    checker = TargetChecker(known, folder, found, keys)
    blocks = [block for tier in Tier for block in salvage_targets(content, tier)[:_MAX_FAULTS]]
    check_names([block for block in blocks if block.settings.name], found)
    for block in blocks:
        checker.check(block)
    models = content.get("models")
    if isinstance(models, dict):
        named = {name: meaning for name, meaning in models.items() if isinstance(name, str)}
        _check_models(named, {block.settings.name for block in blocks}, found)
    targets = {block.settings.name: block.settings for block in blocks}
    check_asked(salvage_text(content, "second_opinion", "target"), targets, found)
    check_passed(salvage_passed(content).items(), targets, known, found)
    _check_store(salvage_text(content, "store", "path"), salvage_text(content, "ledger", "path"), folder, found)
    faulty = tuple(fault.path for fault in faults)
    faults += [fault for fault in found if not fault.path.startswith(faulty)]


def _check_policies(entries: Sequence[Any], folder: Path, known: Known, faults: list[Fault]) -> list[tuple[str, PolicyConfig]]:
    found: list[tuple[str, PolicyConfig]] = []
    for index, entry in enumerate(entries):
        path = f"policies[{index}]"
        if any(fault.path == path for fault in faults):
            continue
        name, content = (entry, None) if isinstance(entry, str) else next(iter(entry.items()), ("", None))
        if not isinstance(entry, str) and len(entry) != 1:
            faults.append(Fault(path, "must be a name, or one name with its settings"))
        elif name not in known.policies:
            hint = f"{close_to(name, known.policies)}known: {', '.join(known.policies)}"
            faults.append(Fault(path, f'unknown policy "{name}"', hint))
        elif name in (seen for seen, _ in found):
            faults.append(Fault(path, f'duplicate policy "{name}"'))
        else:
            settings = check_block(known.policies[name], content, f"{path}.{name}", faults)
            if isinstance(settings, PolicyConfig):
                found.append((name, settings.rooted(folder)))
                _check_weights(found[-1][1], f"{path}.{name}", faults)
    return found


def _check_weights(settings: PolicyConfig, path: str, faults: list[Fault]) -> None:
    try:
        _ = settings.fingerprint
    except ValueError as error:
        faults.append(Fault(f"{path}.weights", str(error), "make train in a checkout of Tandem writes them"))


def _check_rules(rules: Sequence[object], policies: list[tuple[str, PolicyConfig]], known: Known, faults: list[Fault]) -> None:
    """Hand the rules to the policy that applies them. It is used whenever there are rules, listed or not."""
    if not rules:
        return
    if any(name == _RULES and settings != known.policies[_RULES]() for name, settings in policies):
        faults.append(Fault("rules", "set both at the top level and under policies", "keep only the top-level rules"))
    for index, rule in enumerate(rules):
        when = rule.get("when") if isinstance(rule, dict) else None
        client = when.get("client") if isinstance(when, dict) else None
        if isinstance(client, str) and client not in known.clients:
            hint = f"{close_to(client, known.clients)}known: {', '.join(known.clients)}"
            faults.append(Fault(f"rules[{index}].when.client", f'unknown client "{client}"', hint))
    settings = check_block(known.policies[_RULES], {"rules": list(rules)}, "", faults)
    if isinstance(settings, PolicyConfig):
        policies[:] = [*(entry for entry in policies if entry[0] != _RULES), (_RULES, settings)]


def _fits(config: Config, policies: Sequence[tuple[str, PolicyConfig]]) -> bool:
    """Whether what `tandem tune` fitted belongs to the weights in use."""
    decision, defaults = config.decision, DecisionSettings()
    is_fitted = decision.personal_log_odds != defaults.personal_log_odds or decision.base_rate != defaults.base_rate
    return not is_fitted or decision.fitted_to == _fingerprint_of(policies)


def _fingerprint_of(policies: Sequence[tuple[str, PolicyConfig]]) -> str:
    """Which weights read the words; empty if none do."""
    return next((settings.fingerprint for _, settings in policies if settings.fingerprint), "")


def _check_models(models: Mapping[str, str | None], names: set[str], faults: list[Fault]) -> None:
    for name, meaning in models.items():
        if meaning is None:
            _check_taken(name, faults)
        elif meaning not in ("auto", "fast", "deep") and meaning not in names:
            known = ", ".join(("auto", "fast", "deep", *sorted(names - {""})))
            faults.append(Fault(f"models.{name}", f'"{meaning}" is neither a tier nor a target', f"known: {known}"))


def _check_taken(name: str, faults: list[Fault]) -> None:
    """`NAME: null`. Clients ask for `auto` by default, so it stays."""
    if name == "auto":
        faults.append(Fault("models.auto", "cannot be removed", "give it a meaning: auto, fast, deep or a target's name"))
    elif name != "*" and name not in SHIPPED_MODELS:
        hint = f"{close_to(name, SHIPPED_MODELS)}tandem check lists them"
        faults.append(Fault(f"models.{name}", "null removes a built-in name, and this is not one", hint))


def _check_store(store: str | None, ledger: str | None, folder: Path, faults: list[Fault]) -> None:
    if store and ledger and (folder / expand(store)).resolve() == (folder / expand(ledger)).resolve():
        faults.append(Fault("store.path", "is the same file as the ledger", "give it another name, such as responses.db"))
