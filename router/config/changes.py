"""The difference between two configs: the blocks that a reload applies, and the settings that need a restart."""

from collections.abc import Iterable, Iterator
from functools import cache
from operator import attrgetter

from msgspec import Struct

from router.config.load import LoadedConfig
from router.config.models import Config
from router.config.settings import fields_of, inner_block
from router.contract.block import RESTART
from router.contract.keys import KeyRing
from router.contract.secret import Secret
from router.contract.words import Tier

_MAX_NAMED = 3


class Changes(Struct, frozen=True):
    applied: tuple[str, ...]
    """Blocks, with the names of their targets or callers."""
    needs_restart: tuple[str, ...]
    """Settings that differ from the start, and have no effect until a restart."""


def find_changes(started: LoadedConfig, before: LoadedConfig, after: LoadedConfig, weights_before: str = "") -> Changes:
    """Changes since `before` that a reload applies, and since `started` that need a restart.

    `weights_before` is the fingerprint of the weights in use, whose file may have been rewritten.
    """
    first, now = _fixed_of(started), _fixed_of(after)
    applied = dict.fromkeys(find_applied(before, after))
    if (weights_before or before.weights_fingerprint) != after.weights_fingerprint:
        applied["policies"] = None
    return Changes(tuple(applied), tuple(path for path in now if now[path] != first[path]))


def find_applied(before: LoadedConfig, after: LoadedConfig) -> tuple[str, ...]:
    """Blocks whose settings differ, or the secrets, certificates, policies and texts that they name."""
    old, new = _blocks_of(before), _blocks_of(after)
    blocks = [name for name in new if old[name] != new[name] and None not in (old[name], new[name])]
    return (*_compare_targets(before, after), *blocks, *find_key_changes(before.keys, after.keys))


def find_key_changes(before: KeyRing | None, after: KeyRing | None) -> tuple[str, ...]:
    if before is None or after is None:
        return ()
    old, new = _callers_in(before), _callers_in(after)
    changed = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
    return (f"callers ({_name_few(changed)})",) if changed else ()


@cache
def list_restarts(kind: type = Config, prefix: str = "") -> tuple[str, ...]:
    """Settings that are read only at the start, by their path."""
    found: list[str] = []
    for name, field in fields_of(kind).items():
        inner = inner_block(field)
        if RESTART in field.metadata:
            found.append(f"{prefix}{name}")
        elif inner is not None:
            found += list_restarts(inner, f"{prefix}{name}.")
    return tuple(found)


def _fixed_of(loaded: LoadedConfig) -> dict[str, object]:
    """Of keys and a certificate only whether there are any: others are taken."""
    config = loaded.config
    own = {"ledger.path": loaded.ledger_path, "store.path": loaded.store_path}
    present = {"server.tls": config.server.tls is not None, "keys": config.keys is not None}
    return {path: attrgetter(path)(config) for path in list_restarts()} | own | present


def _blocks_of(loaded: LoadedConfig) -> dict[str, object]:
    """None for one that only a restart turns on."""
    blocks = loaded.config.model_dump(exclude={"tiers"})
    for path in list_restarts():
        block, _, setting = path.partition(".")
        blocks[block] = {name: value for name, value in blocks[block].items() if name != setting} if setting else None
    more = {
        "alerts": _reveal(loaded.webhook),
        "combine": loaded.combine,
        "metrics": _reveal(loaded.metrics_key),
        "policies": [(own.source, own.digest, own.trouble) for own in loaded.own_policies],
        "traces": loaded.trace_headers,
        "webhooks": _reveal(*(secret for hook in loaded.job_webhooks for secret in hook.secret)),
    }
    tls = loaded.tls_paths
    watched = {"keys": loaded.keys_path, "server.tls": (tls, loaded.certificate) if tls is not None else None}
    return blocks | {name: (blocks[name], value) for name, value in more.items()} | watched


def _compare_targets(before: LoadedConfig, after: LoadedConfig) -> Iterator[str]:
    for tier in Tier:
        old, new = (_targets_of(loaded, tier) for loaded in (before, after))
        changed = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
        if changed or list(old) != list(new):
            yield f"tiers.{tier} ({_name_few(changed or new)})"


def _targets_of(loaded: LoadedConfig, tier: Tier) -> dict[str, object]:
    plans = [plan for plan in loaded.targets if plan.target.tier is tier]
    return {plan.target.name: (plan, _reveal(*plan.endpoint.secrets)) for plan in plans}


def _reveal(*secrets: Secret | None) -> list[str]:
    """Their values, which are not compared with the secrets themselves."""
    return [secret.reveal() for secret in secrets if secret is not None]


def _callers_in(ring: KeyRing) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {name: [rights] for name, rights in ring.rights.items()}
    for key in ring:
        found.setdefault(key.caller.name, []).append(key)
    return found


def _name_few(names: Iterable[str]) -> str:
    first, rest = (ordered := list(names))[:_MAX_NAMED], len(ordered) - _MAX_NAMED
    return f"{', '.join(first)} and {rest} more" if rest > 0 else ", ".join(first)
