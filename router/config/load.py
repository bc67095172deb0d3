"""Finding, reading and checking `config.yaml`. All faults are reported at once, each with its path and what would be right."""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from router.config.env_file import NAME as ENV_FILE
from router.config.env_file import EnvFileUnreadable, is_open_to_others, read_env_file
from router.config.faults import Fault, Known, as_fault, check_block, close_to
from router.config.folders import NoHome, state_folder, user_folder
from router.config.models import SHIPPED_MODELS, Config, DecisionSettings, TargetSettings
from router.config.salvage import path_of, salvage_targets
from router.config.second_opinion import check_asked, salvage_asked, say_who_is_asked, warn_of_slowness
from router.config.targets import TargetChecker, TargetPlan, check_names, check_targets
from router.contract.opinions import PolicyConfig
from router.contract.secret import Secret
from router.contract.words import Tier

_RULES = "rules"
"""The policy that follows `rules:`."""
_MAX_BYTES = 1 << 20
_MAX_BRACKETS = 5_000
"""A parser's time grows with nesting; no config of a person's comes near this."""

_REFERENCE = re.compile(r"\benv:([A-Za-z_][A-Za-z0-9_]*)")
_MAX_FAULTS = 100
"""More are counted, and not looked at one by one: whoever has that many gave us another program's file."""


class ConfigError(Exception):
    """The config cannot be used. Holds every fault that was found."""

    def __init__(self, source: str, faults: list[Fault], content: Mapping[str, object] | None = None) -> None:
        super().__init__(f"{source}: {len(faults)} problem{'s' if len(faults) != 1 else ''}")
        self.source = source
        self.faults = faults
        self.content = content or {}
        """What the file says, where it could be parsed: for those who look at more than this room knows."""


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

    @property
    def weights_fingerprint(self) -> str:
        """Which weights read the words; empty where none do."""
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
        """Who is asked for a second opinion, for a person; empty where nobody is."""
        return say_who_is_asked(self.config.second_opinion, self.targets)

    @property
    def store_path(self) -> Path | None:
        """Where responses are stored, if anywhere but in memory."""
        path = self.config.store.path
        return self.folder / _expand(path) if path else None


class _PlainLoader(yaml.SafeLoader):
    """YAML without anchors: a file of a few lines must not unfold to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="anchors and aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f'duplicate key "{key.value}"', problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _expand(path: str) -> Path:
    """A path with `~` as the user's home; as it is where nobody knows whose home is meant."""
    return Path(os.path.expanduser(path))


def find_config(explicit: str | None) -> Path | None:
    """`--config`, `$TANDEM_CONFIG`, `./config.yaml`, the user's config folder; None for the default with simulated tiers."""
    named = explicit or os.environ.get("TANDEM_CONFIG")
    if named:
        return _expand(named)
    places = [Path("config.yaml")]
    with contextlib.suppress(NoHome):
        places.append(user_folder() / "config.yaml")
    return next((path for path in places if path.is_file()), None)


def default_text() -> str:
    """The default `config.yaml`: inside the package when installed, beside it in a checkout."""
    packaged = resources.files("router.config") / "default.yaml"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).resolve().parents[2] / "config.yaml").read_text(encoding="utf-8")


def load_config(path: Path | None, known: Known) -> LoadedConfig:
    """Read and check a config. Raises `ConfigError` with every fault."""
    return check_config(*_read(path), known)


def load_ledger_path(path: Path | None, known: Callable[[], Known]) -> Path | None:
    """Where the ledger of a config is. Whoever only looks back needs no key and no target: these are not checked here.

    Raises `ConfigError`; only then is it asked what is known.
    """
    text, source, folder = _read(path)
    try:
        config = Config.model_validate(_parse(text, source))
    except ValidationError:
        return check_config(text, source, folder, known()).ledger_path  # which says all that is wrong
    return _ledger_path(config, folder)


def _read(path: Path | None) -> tuple[str, str, Path]:
    """The text of a config, what to call it, and the folder that its paths begin at."""
    if path is None:
        source = "the built-in default"
        try:
            return default_text(), source, state_folder()
        except NoHome as error:
            problem = Fault("home", "there is no home folder to keep the ledger in", f"set HOME or {error}, or use --config")
            raise ConfigError(source, [problem]) from error
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            str(path), [Fault("file", error.strerror or "cannot be read", "name another with --config")]
        ) from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [Fault("file", "is not UTF-8")]) from error
    return text, str(path), path.resolve().parent


def _ledger_path(config: Config, folder: Path) -> Path | None:
    path = config.ledger.path
    return folder / _expand(path) if path else None


def check_config(text: str, source: str, folder: Path, known: Known) -> LoadedConfig:
    """Check the text of a config."""
    content = _parse(text, source)
    faults: list[Fault] = []
    keys = _read_keys(text, folder, faults)
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        entries = _telling(error.errors())
        faults += [as_fault(entry) for entry in entries[:_MAX_FAULTS]]
        if len(entries) > _MAX_FAULTS:
            more = Fault("file", f"{len(entries) - _MAX_FAULTS} more problems")
            raise ConfigError(source, [*faults, more], content) from error
        _check_what_can_be(content, folder, known, faults, keys)
        raise ConfigError(source, faults, content) from error
    policies = _check_policies(config.policies, folder, known, faults)
    _check_rules(config.rules, policies, known, faults)
    targets = check_targets(config, folder, known, faults, keys)
    _check_models(config.models, set(_read_targets(config)), faults)
    check_asked(config.second_opinion.target if config.second_opinion else None, _read_targets(config), faults)
    _check_store(config.store.path, config.ledger.path, folder, faults)
    if faults:
        raise ConfigError(source, faults, content)
    warnings = _warnings(config) + warn_of_slowness(config.second_opinion, targets)
    if keys and is_open_to_others(folder):
        warnings.append(f"{folder / ENV_FILE}: other users of this machine may read it; chmod 600 {folder / ENV_FILE}")
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
    )


def _parse(text: str, source: str) -> Mapping[str, object]:
    if len(text) > _MAX_BYTES:
        raise ConfigError(source, [Fault("file", f"is over {_MAX_BYTES} bytes")])
    if text.count("[") + text.count("{") > _MAX_BRACKETS:
        raise ConfigError(source, [Fault("file", f"has more than {_MAX_BRACKETS} brackets")])
    try:
        content = yaml.load(text, Loader=_PlainLoader)  # noqa: S506  a SafeLoader, with less
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "file"
        raise ConfigError(source, [Fault(where, str(getattr(error, "problem", None) or "is not valid YAML"))]) from error
    except RecursionError as error:
        raise ConfigError(source, [Fault("file", "is nested too deeply")]) from error
    if not isinstance(content, dict):
        problem = 'must contain settings, as "name: value"' if text.strip() else "is empty"
        raise ConfigError(source, [Fault("file", problem, "tandem init writes one")])
    return cast("Mapping[str, object]", content)


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
        faults.append(Fault(ENV_FILE, str(error), f"mend or remove {folder / ENV_FILE}"))
        return {}
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
    check_asked(salvage_asked(content), {block.settings.name: block.settings for block in blocks}, found)
    _check_store(path_of(content, "store"), path_of(content, "ledger"), folder, found)
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
        faults.append(Fault(f"{path}.weights", str(error), "tandem train writes them"))


def _check_rules(rules: Sequence[object], policies: list[tuple[str, PolicyConfig]], known: Known, faults: list[Fault]) -> None:
    """Hand the rules to the policy that follows them. It is asked wherever there are rules, listed or not."""
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
    """Which weights read the words; empty where none do."""
    return next((settings.fingerprint for _, settings in policies if settings.fingerprint), "")


def _check_models(models: Mapping[str, str | None], names: set[str], faults: list[Fault]) -> None:
    for name, meaning in models.items():
        if meaning is None:
            _check_taken(name, faults)
        elif meaning not in ("auto", "fast", "deep") and meaning not in names:
            known = ", ".join(("auto", "fast", "deep", *sorted(names - {""})))
            faults.append(Fault(f"models.{name}", f'"{meaning}" is neither a tier nor a target', f"known: {known}"))


def _check_taken(name: str, faults: list[Fault]) -> None:
    """`NAME: null`. Clients that are told nothing else ask for `auto`, so it stays."""
    if name == "auto":
        faults.append(Fault("models.auto", "cannot be taken away", "give it a meaning: auto, fast, deep or a target's name"))
    elif name != "*" and name not in SHIPPED_MODELS:
        hint = f"{close_to(name, SHIPPED_MODELS)}tandem check lists them"
        faults.append(Fault(f"models.{name}", "null takes a shipped name away, and no shipped name is this one", hint))


def _read_targets(config: Config) -> dict[str, TargetSettings]:
    return {settings.name: settings for tier in (config.tiers.fast, config.tiers.deep) for settings in tier.targets}


def _check_store(store: str | None, ledger: str | None, folder: Path, faults: list[Fault]) -> None:
    if store and ledger and (folder / _expand(store)).resolve() == (folder / _expand(ledger)).resolve():
        faults.append(Fault("store.path", "is the same file as the ledger", "give it another name, such as responses.db"))


def _warnings(config: Config) -> list[str]:
    found = []
    for tier, block in (("fast", config.tiers.fast), ("deep", config.tiers.deep)):
        for index, settings in enumerate(block.targets):
            path = f"tiers.{tier}.targets[{index}]"
            key = Secret(settings.api_key) if settings.api_key else None
            if key is not None and not key.is_reference and not key.is_callers:
                found.append(f"{path}.api_key: the key is written in the config file; use env:NAME to keep it out")
            if key is not None and key.is_padded:
                found.append(f"{path}.api_key: {key} has spaces or a line break around it, which are left out")
    return found
