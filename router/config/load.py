"""Finding, reading and checking `config.yaml`. All faults are reported at once, each with its path and what would be right."""

import difflib
import hashlib
import inspect
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, cast, get_args

import orjson
import yaml
from pydantic import BaseModel, ValidationError

from router.config.models import Config, LimitsSettings, TargetSettings
from router.contract.opinions import PolicyConfig
from router.contract.relay import AdapterSettings, Endpoint, Tls
from router.contract.secret import Secret
from router.contract.target import Pace, Price, Target, Timeouts
from router.contract.words import Dialect, Feature, Tier

TYPICAL_PACE = {
    Tier.FAST: Pace(ttft_seconds=0.3, tokens_per_second=600.0, prefill_tokens_per_second=20_000.0),
    Tier.DEEP: Pace(ttft_seconds=1.2, tokens_per_second=70.0, prefill_tokens_per_second=10_000.0),
}
"""What a target is taken to be before it is measured, when nobody said: the two tiers differ, or nothing would go fast."""
_MOST_BYTES = 1 << 20
_MOST_BRACKETS = 5_000
"""A parser's time grows with nesting; no config of a person's comes near this."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong, where it is, and what would be right."""

    path: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" + (f"\n  hint: {self.hint}" if self.hint else "")


class ConfigError(Exception):
    """The config cannot be used. Holds every fault that was found."""

    def __init__(self, source: str, faults: list[Fault]) -> None:
        super().__init__(f"{source}: {len(faults)} fault{'s' if len(faults) != 1 else ''}")
        self.source = source
        self.faults = faults


@dataclass(frozen=True, slots=True)
class KnownAdapter:
    """What the config must know of an adapter, without importing it."""

    speaks: frozenset[Dialect]
    needs_address: bool
    settings: type[AdapterSettings]


@dataclass(frozen=True, slots=True)
class Known:
    """The names that a config may use."""

    policies: Mapping[str, type[PolicyConfig]]
    adapters: Mapping[str, KnownAdapter]


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """A target ready to be built: what it is, who reaches it, and how."""

    target: Target
    adapter: str
    endpoint: Endpoint
    settings: AdapterSettings


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
    def is_simulated(self) -> bool:
        """Whether no real model stands behind this config."""
        return all(plan.adapter == "simulated" for plan in self.targets)

    @property
    def ledger_path(self) -> Path | None:
        """Where the ledger is, if there is one."""
        path = self.config.ledger.path
        return self.folder / Path(path).expanduser() if path else None


class _PlainLoader(yaml.SafeLoader):
    """YAML without anchors: a file of a few lines must not unfold to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="anchors and aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.MarkedYAMLError(problem=f'"{twice}" stands twice', problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def user_folder() -> Path:
    """The user's config folder."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tandem"


def state_folder() -> Path:
    """The user's folder for what a program remembers."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tandem"


def find_config(explicit: str | None) -> Path | None:
    """`--config`, `$TANDEM_CONFIG`, `./config.yaml`, the user's config folder; None for the default with simulated tiers."""
    named = explicit or os.environ.get("TANDEM_CONFIG")
    if named:
        return Path(named).expanduser()
    return next((path for path in (Path("config.yaml"), user_folder() / "config.yaml") if path.is_file()), None)


def default_text() -> str:
    """The default `config.yaml`: inside the package when installed, beside it in a checkout."""
    packaged = resources.files("router.config") / "default.yaml"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).resolve().parents[2] / "config.yaml").read_text(encoding="utf-8")


def load_config(path: Path | None, known: Known) -> LoadedConfig:
    """Read and check a config. Raises `ConfigError` with every fault."""
    if path is None:
        return check_config(default_text(), "the built-in default", state_folder(), known)
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
    return check_config(text, str(path), path.resolve().parent, known)


def check_config(text: str, source: str, folder: Path, known: Known) -> LoadedConfig:
    """Check the text of a config."""
    content = _parse(text, source)
    faults: list[Fault] = []
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        faults = [_as_fault(entry) for entry in _telling(error.errors())]
        _check_what_can_be(content, folder, known, faults)
        raise ConfigError(source, faults) from error
    policies = _check_policies(config.policies, known, faults)
    targets = _check_targets(config, folder, known, faults)
    _check_models(config, faults)
    if faults:
        raise ConfigError(source, faults)
    return LoadedConfig(
        config=config,
        source=source,
        folder=folder,
        fingerprint=hashlib.blake2b(orjson.dumps(config.model_dump(mode="json")), digest_size=6).hexdigest(),
        targets=tuple(targets),
        policies=tuple(policies),
        warnings=(*_warnings(config), *_reach_warnings(targets)),
    )


def _parse(text: str, source: str) -> Mapping[str, object]:
    if len(text) > _MOST_BYTES:
        raise ConfigError(source, [Fault("file", f"is over {_MOST_BYTES} bytes")])
    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise ConfigError(source, [Fault("file", f"holds over {_MOST_BRACKETS} brackets")])
    try:
        content = yaml.load(text, Loader=_PlainLoader)  # noqa: S506  a SafeLoader, with less
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "file"
        raise ConfigError(source, [Fault(where, str(getattr(error, "problem", None) or "is not YAML"))]) from error
    except RecursionError as error:
        raise ConfigError(source, [Fault("file", "is nested too deeply")]) from error
    if not isinstance(content, dict):
        raise ConfigError(source, [Fault("file", "must hold settings", "tandem init writes one")])
    return cast("Mapping[str, object]", content)


def _as_fault(entry: Any, prefix: str = "") -> Fault:  # pydantic's own error records
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in entry["loc"]]
    path = (prefix + "".join(steps)).lstrip(".") or "file"
    kind, seen = entry["type"], entry.get("input")
    if kind == "extra_forbidden":
        near = _close_to(str(entry["loc"][-1]), _setting_names(Config))
        return Fault(path, "no such setting", f"{near}docs/reference/config.md lists them all")
    if kind == "missing":
        return Fault(path, "missing")
    shown = f", not {seen!r}" if isinstance(seen, (str, int, float, bool)) and "key" not in path and "url" not in path else ""
    return Fault(path, f"{entry['msg'].removeprefix('Value error, ')}{shown}")


def _setting_names(model: type[BaseModel]) -> set[str]:
    """Every name that a setting has, at any depth: enough to guess what a typo meant."""
    names = set(model.model_fields)
    for field in model.model_fields.values():
        for inner in (field.annotation, *get_args(field.annotation)):
            if inspect.isclass(inner) and issubclass(inner, BaseModel):
                names |= _setting_names(inner)
    return names


def _telling(entries: list[Any]) -> list[Any]:
    """Leave out what only follows from another fault: a list that is empty because its one entry is wrong."""
    places = [entry["loc"] for entry in entries]
    return [
        entry
        for entry in entries
        if entry["type"] != "too_short"
        or not any(len(place) > len(entry["loc"]) and place[: len(entry["loc"])] == entry["loc"] for place in places)
    ]


def _check_what_can_be(content: Mapping[str, object], folder: Path, known: Known, faults: list[Fault]) -> None:
    """Check the parts of a faulty file that are well formed, so that nobody mends one fault only to meet the next."""
    policies = content.get("policies")
    if isinstance(policies, list):
        _check_policies([entry for entry in policies if isinstance(entry, (str, dict))], known, faults)
    tiers = content.get("tiers")
    for tier in Tier:
        block = tiers.get(str(tier)) if isinstance(tiers, dict) else None
        targets = block.get("targets") if isinstance(block, dict) else None
        for index, target in enumerate(targets if isinstance(targets, list) else []):
            try:
                settings = TargetSettings.model_validate(target)
            except ValidationError:
                continue
            _check_target(tier, settings, LimitsSettings(), folder, known, f"tiers.{tier}.targets[{index}]", faults)


def _close_to(name: str, known: Iterable[str]) -> str:
    """A hint for a typo."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {found[0]}? " if found else ""


def _check_block(model: type[BaseModel], content: object, path: str, faults: list[Fault]) -> BaseModel | None:
    try:
        return model.model_validate(content or {})
    except ValidationError as error:
        faults.extend(_as_fault(entry, path) for entry in error.errors())
        return None


def _check_policies(entries: Sequence[Any], known: Known, faults: list[Fault]) -> list[tuple[str, PolicyConfig]]:
    found: list[tuple[str, PolicyConfig]] = []
    for index, entry in enumerate(entries):
        name, content = (entry, None) if isinstance(entry, str) else next(iter(entry.items()), ("", None))
        path = f"policies[{index}]"
        if not isinstance(entry, str) and len(entry) != 1:
            faults.append(Fault(path, "must be a name, or one name with its settings"))
        elif name not in known.policies:
            hint = f"{_close_to(name, known.policies)}known: {', '.join(known.policies)}"
            faults.append(Fault(path, f'no policy "{name}"', hint))
        elif name in (seen for seen, _ in found):
            faults.append(Fault(path, f'"{name}" stands twice'))
        else:
            settings = _check_block(known.policies[name], content, f"{path}.{name}", faults)
            if isinstance(settings, PolicyConfig):
                found.append((name, settings))
    return found


def _check_targets(config: Config, folder: Path, known: Known, faults: list[Fault]) -> list[TargetPlan]:
    plans: list[TargetPlan] = []
    seen: set[str] = set()
    for tier, block in ((Tier.FAST, config.tiers.fast), (Tier.DEEP, config.tiers.deep)):
        for index, settings in enumerate(block.targets):
            path = f"tiers.{tier}.targets[{index}]"
            if settings.name in ("auto", "fast", "deep"):
                faults.append(Fault(f"{path}.name", f'"{settings.name}" stands for a tier', "give the target another name"))
            elif settings.name in seen:
                faults.append(Fault(f"{path}.name", f'"{settings.name}" is taken', "give each target a name of its own"))
            seen.add(settings.name)
            plan = _check_target(tier, settings, config.limits, folder, known, path, faults)
            if plan is not None:
                plans.append(plan)
    return plans


def _check_target(
    tier: Tier, settings: TargetSettings, limits: LimitsSettings, folder: Path, known: Known, path: str, faults: list[Fault]
) -> TargetPlan | None:
    adapter = known.adapters.get(settings.adapter)
    if adapter is None:
        hint = f"{_close_to(settings.adapter, known.adapters)}known: {', '.join(known.adapters)}"
        faults.append(Fault(f"{path}.adapter", f'no adapter "{settings.adapter}"', hint))
        return None
    before = len(faults)
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
    if settings.simulated and settings.adapter != "simulated":
        faults.append(Fault(f"{path}.simulated", "only for adapter: simulated"))
    extra = _check_block(
        adapter.settings, settings.simulated if settings.adapter == "simulated" else {}, f"{path}.simulated", faults
    )
    if len(faults) > before or not isinstance(extra, AdapterSettings):
        return None
    spoken_here = (
        frozenset({dialect}) if dialect else (adapter.speaks if not adapter.needs_address else _default_dialect(adapter))
    )
    target = Target(
        name=settings.name,
        tier=tier,
        speaks=spoken_here,
        accepts=frozenset(settings.accepts) | {Feature.TEXT},
        window_tokens=settings.window_tokens,
        typical=_typical(tier, settings, extra),
        timeouts=Timeouts(
            settings.timeouts.connect_seconds or limits.connect_timeout_seconds,
            settings.timeouts.first_byte_seconds or limits.first_byte_timeout_seconds,
            settings.timeouts.stall_seconds or limits.stall_timeout_seconds,
        ),
        price=Price(**settings.price.model_dump()) if settings.price else None,
    )
    endpoint = Endpoint(settings.model or settings.name, settings.base_url, key, tls)
    return TargetPlan(target, settings.adapter, endpoint, extra)


def _typical(tier: Tier, settings: TargetSettings, extra: AdapterSettings) -> Pace:
    """The usual pace: as stated, else (a simulated target) as it is told to behave, else what its tier is for."""
    stated: dict[str, float] = settings.typical.model_dump(exclude_none=True)
    behaves: dict[str, float] = extra.model_dump()
    figures = {**TYPICAL_PACE[tier]._asdict(), **{name: behaves[name] for name in Pace._fields if name in behaves}, **stated}
    return Pace(**figures)


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


def _check_models(config: Config, faults: list[Fault]) -> None:
    names = {settings.name for tier in (config.tiers.fast, config.tiers.deep) for settings in tier.targets}
    for pattern, meaning in config.models.items():
        if meaning not in ("auto", "fast", "deep") and meaning not in names:
            known = ", ".join(("auto", "fast", "deep", *sorted(names)))
            faults.append(Fault(f"models.{pattern}", f'"{meaning}" is neither a tier nor a target', f"known: {known}"))


def _reach_warnings(plans: Sequence[TargetPlan]) -> list[str]:
    """Dialects whose clients reach only one tier: they are served, and never routed."""
    found = []
    for dialect in (Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES):
        tiers = {plan.target.tier for plan in plans if dialect in plan.target.speaks}
        if len(tiers) == 1:
            tier = tiers.pop()
            found.append(f"{dialect} clients reach only {tier}: no {tier.other} target speaks {dialect}")
    return found


def _warnings(config: Config) -> list[str]:
    found = []
    for tier, block in (("fast", config.tiers.fast), ("deep", config.tiers.deep)):
        for index, settings in enumerate(block.targets):
            path = f"tiers.{tier}.targets[{index}]"
            if settings.api_key and not Secret(settings.api_key).is_reference:
                found.append(f"{path}.api_key: a key stands in the file itself; env:NAME keeps it out")
            if settings.quota is not None:
                found.append(f"{path}.quota: read, but not enforced by this version")
    return found
