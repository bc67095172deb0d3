"""What commands share: finding the config, and saying what is wrong with it."""

import argparse
import itertools
import os
import sys
from pathlib import Path

from router.config.load import ConfigError, LoadedConfig, find_config, load_config
from router.contract.request import JsonObject
from router.contract.words import Dialect, Tier
from router.ledger.files import LedgerUnusable
from router.ledger.turns import RecordedTurn, find_turn
from router.wiring import known_names

_DIALECTS = (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)


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
    """A dialect that both tiers speak, for examples; chat when there is none."""
    spoken = {tier: {d for plan in loaded.targets if plan.target.tier is tier for d in plan.target.speaks} for tier in Tier}
    shared = spoken[Tier.FAST] & spoken[Tier.DEEP] or spoken[Tier.FAST] | spoken[Tier.DEEP]
    return next((dialect for dialect in _DIALECTS if dialect in shared), Dialect.CHAT)


def example_body(dialect: Dialect, words: str) -> JsonObject:
    """A small request in a dialect."""
    if dialect is Dialect.RESPONSES:
        return {"model": "auto", "input": words}
    body: JsonObject = {"model": "auto", "messages": [{"role": "user", "content": words}]}
    if dialect is Dialect.MESSAGES:
        body["max_tokens"] = 1024
    return {"model": "auto", "prompt": words} if dialect is Dialect.COMPLETIONS else body


def find_recorded_turn(loaded: LoadedConfig, request_id: str | None) -> RecordedTurn | None:
    """A turn of the config's ledger, or None after it was said why there is none."""
    path = loaded.ledger_path
    if path is None:
        say("the config keeps no ledger\n  hint: set ledger.path")
        return None
    try:
        turn = find_turn(path, request_id)
    except LedgerUnusable as error:
        say(str(error))
        return None
    if turn is None:
        say(f"{path} holds no request {request_id}" if request_id else f"{path} holds no turn yet")
    return turn


def command_name() -> str:
    """How this command was called, so that hints can be pasted."""
    path = sys.argv[0]
    if os.path.basename(path) not in ("tandem", "__main__.py"):
        return "tandem"
    nearby = os.path.relpath(path)
    return nearby if os.sep in path and not nearby.startswith("..") and nearby.endswith("tandem") else "tandem"


def say(text: str) -> None:
    """A line for a person, beside the data."""
    print(text, file=sys.stderr)


def free_backup(path: Path) -> Path:
    """`.bak`, or `.bak.1` and so on where that is taken: an older backup is the way back to a file that nobody changed."""
    if not (first := path.with_name(f"{path.name}.bak")).exists():
        return first
    numbered = (path.with_name(f"{path.name}.bak.{number}") for number in itertools.count(1))
    return next(backup for backup in numbered if not backup.exists())
