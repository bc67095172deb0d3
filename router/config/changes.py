"""The difference between two configs in words: what a reload applies, and what needs a restart. Secrets are never shown."""

import time
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from pydantic import BaseModel

from router.config.load import LoadedConfig
from router.config.settings import fields_of
from router.contract.block import Block
from router.contract.keys import KeyRing
from router.contract.rights import Rights

FIXED = (
    "server.host",
    "server.port",
    "server.tls",
    "server.stop_listening_after_seconds",
    "limits.drain_seconds",
    "jobs.keep_hours",
    "shared.valkey",
    "shared.valkey.url",
    "shared.valkey.timeout_ms",
    "shared.valkey.prefix",
    "shared.secret",
    "shared.on_store_outage",
    "shared.replica",
    "shared.postgres",
    "shared.postgres.url",
    "shared.postgres.timeout_ms",
    "shared.postgres.connections",
    "ledger.path",
    "ledger.keep_days",
    "store.path",
    "keys",
)
"""Settings that are read only at the start. A block counts as present or absent."""
_MAX_SHOWN_CHARS = 40
_MAX_NAMED = 3
_SHOWN = (bool, int, float, str, type(None))
Flat = Mapping[str, object]


class Changes(Struct, frozen=True):
    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]
    """Differing from the start, and without effect until a restart."""


def find_changes(started: LoadedConfig, before: LoadedConfig, after: LoadedConfig, weights_before: str = "") -> Changes:
    """Changes since `before` that a reload applies, and since `started` that need a restart.

    `weights_before` is the fingerprint of the weights in use, whose file may have been rewritten.
    """
    first, old, new = _flatten(started), _flatten(before), _flatten(after)
    fixed = [path for path in _differing(first, new) if _is_fixed(path)]
    applied = [path for path in _differing(old, new) if not _is_fixed(path)]
    return Changes(
        applied=(
            *_compare_targets(before, after),
            *find_refreshed(before, after),
            *(_say_setting(path, old, new) for path in applied),
            *_compare_keys(before.keys, after.keys),
            *_compare_own(before, after),
            *_compare_weights(weights_before or before.weights_fingerprint, after.weights_fingerprint),
        ),
        needs_restart=tuple(_say_setting(path, first, new) for path in fixed),
    )


def find_refreshed(before: LoadedConfig, after: LoadedConfig) -> tuple[str, ...]:
    """New values in `.env`, and a new certificate. A value that many targets use is one line."""
    old, new = _values_of(before), _values_of(after)
    changed = [name for name in new if name in old and old[name][0] != new[name][0]]
    found = [f"{name}: new value, used by {_name_few(new[name][1])}" for name in changed]
    if before.config.traces == after.config.traces and before.trace_headers != after.trace_headers:
        found.append("traces.headers: new value")
    if before.certificate is not None and after.certificate is not None and before.certificate != after.certificate:
        found.append(f"server.tls: new certificate {after.certificate.describe(time.time())}")
    return tuple(found)


def _values_of(loaded: LoadedConfig) -> dict[str, tuple[str, list[str]]]:
    """The values of `.env` by their variables, with what uses each."""
    used = [(plan.target.name, secret) for plan in loaded.targets for secret in plan.endpoint.secrets]
    used += [("alerts.webhook", secret) for secret in (loaded.webhook,) if secret is not None]
    used += [("webhooks", secret) for hook in loaded.job_webhooks for secret in hook.secret]
    used += [("metrics.key", secret) for secret in (loaded.metrics_key,) if secret is not None]
    found: dict[str, tuple[str, list[str]]] = {}
    for name, secret in used:
        if secret.is_from_file:
            found.setdefault(secret.variable, (secret.kept, []))[1].append(name)
    return found


def _name_few(names: Iterable[str]) -> str:
    first, rest = (ordered := list(dict.fromkeys(names)))[:_MAX_NAMED], len(ordered) - _MAX_NAMED
    return f"{', '.join(first)} and {rest} more" if rest > 0 else ", ".join(first)


def find_key_changes(before: KeyRing, after: KeyRing) -> tuple[str, ...]:
    return tuple(_compare_keys(before, after))


def _flatten(loaded: LoadedConfig) -> Flat:
    config = loaded.config
    found = dict(_walk(config.model_copy(update={"tiers": None}), ""))
    found |= {f"tiers.{tier}.instructions": block.instructions for tier, block in config.tiers}
    for path in [path for path in found if path.startswith(("server.tls.", "keys."))]:
        del found[path]
    found["server.tls"], found["keys"] = config.server.tls is not None, config.keys is not None
    if config.keys is not None:
        found["keys.file"] = config.keys.file
    if config.server.tls is not None:
        found |= {f"server.tls.{name}": value for name, value in config.server.tls}
    found["ledger.path"] = str(loaded.ledger_path) if loaded.ledger_path is not None else None
    found["store.path"] = str(loaded.store_path) if loaded.store_path is not None else None
    return found


def _compare_own(before: LoadedConfig, after: LoadedConfig) -> Iterator[str]:
    """Own policies whose file holds another text, or that could not be used before or cannot now."""
    known = {own.source: own for own in before.own_policies}
    for own in after.own_policies:
        old = known.get(own.source)
        if old is not None and (old.digest, old.trouble) != (own.digest, own.trouble):
            yield f"policy {own.name}: {own.source} was read again"


def _walk(block: object, prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in _settings_of(block):
        if isinstance(value, BaseModel | Block):
            yield from _walk(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _settings_of(block: object) -> list[tuple[str, object]]:
    return list(block) if isinstance(block, BaseModel) else [(name, getattr(block, name)) for name in fields_of(type(block))]


def _differing(old: Flat, new: Flat) -> list[str]:
    names = dict.fromkeys((*old, *new))
    return [name for name in names if old.get(name) != new.get(name)]


def _is_fixed(path: str) -> bool:
    return path in FIXED


def _say_setting(path: str, old: Flat, new: Flat) -> str:
    before, after = old.get(path), new.get(path)
    if path in ("server.tls", "keys"):
        return f"{path}: {'added' if after else 'removed'}"
    if isinstance(before, _SHOWN) and isinstance(after, _SHOWN):
        shown = f"{path}: {_show(before)} → {_show(after)}"
        if len(shown) <= len(path) + 2 * _MAX_SHOWN_CHARS:
            return shown
    return f"{path}: changed"


def _show(value: object) -> str:
    if value is None or value == "":
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _compare_targets(before: LoadedConfig, after: LoadedConfig) -> Iterator[str]:
    old, new = ({plan.target.name: plan for plan in loaded.targets} for loaded in (before, after))
    yield from (f"target {name}: added to {new[name].target.tier}" for name in new if name not in old)
    yield from (f"target {name}: removed" for name in old if name not in new)
    settings_before, settings_after = _target_settings(before), _target_settings(after)
    for name in (name for name in new if name in old):
        if old[name].target.tier is not new[name].target.tier:
            yield f"target {name}: {old[name].target.tier} → {new[name].target.tier}"
        differing = _differing(settings_before[name], settings_after[name])
        if differing:
            yield f"target {name}: changed {', '.join(differing)}"
    if list(old) != list(new) and set(old) == set(new):
        yield "targets: their order changed"


def _target_settings(loaded: LoadedConfig) -> dict[str, Flat]:
    tiers = loaded.config.tiers
    return {target.name: dict(target) for block in (tiers.fast, tiers.deep) for target in block.targets}


def _compare_keys(before: KeyRing | None, after: KeyRing | None) -> Iterator[str]:
    if before is None or after is None:
        return
    old, new = before.rights, after.rights
    yield from (f"caller {name}: added" for name in new if name not in old)
    yield from (f"caller {name}: removed" for name in old if name not in new)
    for name in (name for name in new if name in old and old[name] != new[name]):
        yield f"caller {name}: changed {', '.join(_differing_rights(old[name], new[name]))}"
    keys_before, keys_after = frozenset(before), frozenset(after)
    for count, verb in ((len(keys_after - keys_before), "added"), (len(keys_before - keys_after), "removed")):
        if count:
            yield f"keys: {count} {verb}"


def _differing_rights(old: Rights, new: Rights) -> list[str]:
    return [name for name in Rights.__struct_fields__ if getattr(old, name) != getattr(new, name)]


def _compare_weights(before: str, after: str) -> Iterator[str]:
    if before != after:
        yield f"weights: {before or 'none'} → {after or 'none'}"
