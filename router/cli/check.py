"""`tandem check`."""

import argparse

from router.cli.common import add_config_argument, load_or_report, say
from router.config.models import SHIPPED_MODELS
from router.edge.server import CannotListen, check_host
from router.sense.models import ModelNames


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_config_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print every fault, or a summary of the config."""
    loaded = load_or_report(arguments.config)
    if loaded is None:
        return 2
    try:
        check_host(loaded.config.server.host)
    except CannotListen as error:
        say(f"{loaded.source}: 1 problem\n{error}")
        return 2
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    print(f"{loaded.source}: valid ({loaded.fingerprint})")
    for plan in loaded.targets:
        target, endpoint = plan.target, plan.endpoint
        key = f", key {endpoint.api_key}" if endpoint.api_key else ""
        where = endpoint.base_url or plan.adapter
        facts = f"; {', '.join(plan.looked_up)} from litellm's table" if plan.looked_up else ""
        spoken = "/".join(sorted(target.speaks))
        print(f"  {target.tier:<5} {target.name:<18} {endpoint.model} at {where}{key}; {spoken}{facts}")
    print(f"  preference {loaded.config.preference}; policies: {', '.join(name for name, _ in loaded.policies)}")
    _print_models(ModelNames(loaded.config.models, tuple(plan.target.name for plan in loaded.targets), SHIPPED_MODELS))
    return 0


def _print_models(names: ModelNames) -> None:
    """The model names that callers may use, in the order in which they count; a target's own name means the target."""
    print("  models, the first that matches counts:")
    for name, meaning in names.meanings.items():
        print(f"    {name:<18} {meaning}")
