"""What commands share: finding the config, and saying what is wrong with it."""

import argparse
import itertools
import os
import sys
from pathlib import Path

from router.config.load import ConfigError, LoadedConfig, find_config, load_config
from router.contract.words import DEFAULT_DIALECT, Dialect, Tier
from router.stores.sqlite.files import StoreUnusable
from router.stores.sqlite.turns import RecordedTurn, find_turn
from router.wiring import known_names


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    """`--config`."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the config file (default: $TANDEM_CONFIG, ./config.yaml, the user's config folder, else simulated tiers)",
    )


def load_or_report(path: str | None) -> LoadedConfig | None:
    """The config, or None after every fault was printed."""
    try:
        return load_config(find_config(path), known_names())
    except ConfigError as error:
        say(f"{error}")
        for fault in error.faults:
            say(str(fault))
        return None


def common_dialect(loaded: LoadedConfig) -> Dialect:
    """A dialect that both tiers speak, for examples; the default where there is none."""
    spoken = {tier: {d for plan in loaded.targets if plan.target.tier is tier for d in plan.target.speaks} for tier in Tier}
    shared = spoken[Tier.FAST] & spoken[Tier.DEEP] or spoken[Tier.FAST] | spoken[Tier.DEEP]
    return DEFAULT_DIALECT if DEFAULT_DIALECT in shared else min(shared, default=DEFAULT_DIALECT)


def find_recorded_turn(loaded: LoadedConfig, request_id: str | None) -> RecordedTurn | None:
    """A turn of the config's ledger, or None after saying why there is none."""
    path = loaded.ledger_path
    if path is None:
        say("no ledger is configured\n  hint: set ledger.path")
        return None
    try:
        turn = find_turn(path, request_id)
    except StoreUnusable as error:
        say(str(error))
        return None
    if turn is None:
        say(f"no request {request_id} in {path}" if request_id else f"no turn in {path} yet")
    return turn


def command_name() -> str:
    """How this command was called, so that hints can be pasted."""
    path = sys.argv[0]
    if os.path.basename(path) not in ("tandem", "__main__.py"):
        return "tandem"
    nearby = os.path.relpath(path)
    return nearby if os.sep in path and not nearby.startswith("..") and nearby.endswith("tandem") else "tandem"


def say(text: str) -> None:
    """A line for a person, on standard error."""
    print(text, file=sys.stderr)


def free_backup(path: Path) -> Path:
    """`.bak`, or `.bak.1` and so on where that is taken: an older backup is never overwritten."""
    if not (first := path.with_name(f"{path.name}.bak")).exists():
        return first
    numbered = (path.with_name(f"{path.name}.bak.{number}") for number in itertools.count(1))
    return next(backup for backup in numbered if not backup.exists())
