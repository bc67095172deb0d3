"""`tandem check`."""

import argparse
import sys
import time
from datetime import UTC, datetime

from router.cli.common import add_config_argument, add_timeout_argument, readable, refuse_config, say
from router.cli.key_rights import write_moment
from router.cli.setup.findings import FIX, all_faults, find_host_fault, look_at_targets, look_at_windows, say_findings
from router.config.certificate import read_certificate
from router.config.load import ConfigError, LoadedConfig, find_config, load_config
from router.config.models import SHIPPED_MODELS
from router.config.schema import write_schema
from router.contract.keys import Key, KeyRing
from router.contract.shared import SharedTerms
from router.screen.figures import plural
from router.sense.models import ModelNames
from router.stores.sqlite.lock import find_owner
from router.telemetry.colour import GREEN, YELLOW, paint, paint_tier
from router.wiring.build import known_names

_SOON_SECONDS = 14 * 86_400.0
EXAMPLES = ("check", "check --live", "check --config work.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of config.yaml, for editors")
    parser.add_argument("--live", action="store_true", help="also ask every target for its models (costs no tokens)")
    add_timeout_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print every fault, or a summary of the config. With `--live`, 1 means that a target needs fixing."""
    if arguments.schema:
        print(write_schema(known_names()), end="")
        return 0
    try:
        loaded = load_config(find_config(arguments.config), known_names())
    except ConfigError as error:
        raise refuse_config(error.source, all_faults(error)) from error
    if fault := find_host_fault(loaded.config.server.host, needs_keys=loaded.keys is not None):
        raise refuse_config(loaded.source, [fault])
    for warning in (*loaded.warnings, *(f"{found.text}\n  hint: {found.hint}" for found in look_at_windows(loaded))):
        say(f"{paint('warning', YELLOW, sys.stderr)}: {warning}")
    _print_summary(loaded)
    return _look_live(loaded, arguments.timeout) if arguments.live else 0


def _look_live(loaded: LoadedConfig, within_seconds: float) -> int:
    findings = look_at_targets(loaded, within_seconds, calls=False)
    say_findings(findings)
    return 1 if any(finding.state == FIX for finding in findings) else 0


def _print_summary(loaded: LoadedConfig) -> None:
    print(f"{loaded.source}: {paint('valid', GREEN, sys.stdout)} ({loaded.fingerprint})")
    for plan in loaded.targets:
        target, endpoint = plan.target, plan.endpoint
        origin = " from .env" if endpoint.api_key is not None and endpoint.api_key.is_from_file else ""
        key = f", key {endpoint.api_key}{origin}" if endpoint.api_key else ""
        where = endpoint.base_url or plan.adapter
        sent = ", ".join([extra.name for extra in (*endpoint.headers, *endpoint.query)])
        key += f", sends {sent}" if sent else ""
        facts = f"; {', '.join(plan.looked_up)} from litellm's table" if plan.looked_up else ""
        spoken = "/".join(sorted(target.speaks))
        tier = paint_tier(f"{target.tier:<5}", sys.stdout)
        print(f"  {tier} {target.name:<18} {readable(endpoint.model)} at {where}{key}; {spoken}{facts}")
    print(f"  preference {loaded.config.preference}; policies: {', '.join(name for name, _ in loaded.policies)}")
    if loaded.tls_paths is not None:
        print(f"  tls {loaded.tls_paths.cert}: {read_certificate(loaded.tls_paths).describe(time.time())}")
    if loaded.second_opinion:
        print(f"  second opinion: {loaded.second_opinion}")
    if loaded.ledger_path is not None and (owner := find_owner(loaded.ledger_path)) is not None:
        print(f"  ledger {loaded.ledger_path}: in use by the router {owner}")
    if loaded.shared is not None:
        _print_shared(loaded, loaded.shared)
    if loaded.webhook is not None:
        print(f"  alerts: sent to the address in {loaded.webhook.variable}")
    if loaded.keys is not None:
        _print_keys(loaded.keys, time.time())
    _print_models(ModelNames(loaded.config.models, tuple(plan.target.name for plan in loaded.targets), SHIPPED_MODELS))


def _print_shared(loaded: LoadedConfig, shared: SharedTerms) -> None:
    """Which stores routers share, and line by line what they do not."""
    stores = {"valkey": shared.valkey, "postgres": shared.postgres}
    named = [f"{name} at {terms.url}" for name, terms in stores.items() if terms is not None]
    named += [f"secret {shared.secret}"] if shared.secret is not None else []
    print(f"  shared: {', '.join(named)}; this router is {shared.replica}")
    for line in loaded.unshared:
        print(f"    not shared: {line}")


def _print_keys(keys: KeyRing, now: float) -> None:
    """How many keys there are, and those that have expired or will within two weeks."""
    print(f"  keys: {plural(len(keys.rights), 'caller')}, {plural(len(keys), 'key')}")
    for key in keys:
        if key.expires_at is None or key.expires_at > now + _SOON_SECONDS:
            continue
        is_over = key.expires_at <= now
        has_another = any(other.caller == key.caller and _outlasts(other, key) for other in keys)
        then = f"remove it with tandem keys revoke {key.id}" if is_over else f"tandem keys rotate {key.caller.name}"
        hint = f"; {then}" if is_over or not has_another else f"; {key.caller.name} has a newer key"
        moment = write_moment(datetime.fromtimestamp(key.expires_at, UTC))
        print(f"    {key.id} of {key.caller.name} {'expired' if is_over else 'expires'} {moment}{hint}")


def _outlasts(other: Key, key: Key) -> bool:
    return other.expires_at is None or (key.expires_at is not None and other.expires_at > key.expires_at)


def _print_models(names: ModelNames) -> None:
    """The model names that callers may use, in the order in which they are matched; a target's own name means that target."""
    print("  models (first match wins):")
    for name, meaning in names.meanings.items():
        print(f"    {name:<18} {meaning}")
