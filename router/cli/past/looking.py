"""Shared by `log`, `stats`, `why` and `wrong`: options, the ledger or router to read, and turns."""

import argparse
import os
import time
from datetime import datetime
from pathlib import Path

from router.cli import Ended
from router.cli.common import add_config_argument, known_names, refuse_config, say, whole_number_between
from router.cli.past.sources import LedgerPast, Past, RouterPast
from router.cli.reaching import add_router_arguments, find_url, read_own_key
from router.cli.routers import find_router
from router.cli.tables import style_here
from router.cli.text import clean
from router.config.files import load_ledger_path
from router.config.load import ConfigError, find_config
from router.contract.spending import read_ago
from router.past.turns import Turn, Turns

LAST = 20
"""How many turns are shown unless `-n` is given."""


def add_looking_arguments(parser: argparse.ArgumentParser, counted: str = "") -> None:
    """Arguments of `log` and `stats`. `counted` is what `-n` limits."""
    add_past_arguments(parser)
    add_since_argument(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    if counted:
        number, help_text = whole_number_between(1, 100_000), f"how many, of {counted} (default: {LAST})"
        parser.add_argument("-n", "--last", type=number, default=LAST, metavar="N", help=help_text)


def add_since_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", type=read_since, default=0.0, metavar="WHEN", help="30m, 2h, 7d, or a day as in 2026-11-01 (default: all)"
    )


def add_past_arguments(parser: argparse.ArgumentParser) -> None:
    """Select the config's ledger or another router."""
    add_config_argument(parser)
    add_router_arguments(parser, "where the router is, to ask it for your own turns instead of reading the ledger here")


def open_past(arguments: argparse.Namespace) -> Past:
    """The local ledger; with `--url` or `--key-env`, a router."""
    if arguments.url is None and arguments.key_env is None:
        return LedgerPast(find_ledger(arguments))
    return RouterPast(find_url(arguments.url), read_own_key(arguments.key_env))


def read_turns(past: Past, since: float, limit: int, caller: str | None = None) -> list[Turn]:
    """The newest turns, or one caller's, oldest first."""
    calls, before = past.read_newest(since, limit, caller)
    turns = Turns()
    for (of, session), known in before.items():
        turns.count_from(of, session, known)
    return turns.replay_all(calls)[-limit:]


def find_ledger(arguments: argparse.Namespace) -> Path:
    """Find the ledger to read.

    A config that is named or in this folder comes first. Elsewhere a running router's ledger does; then the config's if it
    exists, else that of the last router.
    """
    is_named = bool(arguments.config or os.environ.get("TANDEM_CONFIG"))
    path, problem = _find_configured(arguments.config)
    has_file = path is not None and path.is_file()
    if is_named or (has_file and Path("config.yaml").exists()):
        router = None
    else:
        router = find_router()
        if router is not None and has_file and not router.is_running():
            router = None
    if router is not None and router.ledger is not None:
        if router.ledger != path:
            say(f"reading {router.ledger}, of the router at {router.url}")
        return router.ledger
    if problem is not None:
        raise refuse_config(problem.source, problem.faults) from problem
    if path is None:
        raise Ended(1, "no ledger is configured\n  hint: set ledger.path")
    return path


def _find_configured(named: str | None) -> tuple[Path | None, ConfigError | None]:
    """The config's ledger, or the config's error."""
    try:
        return load_ledger_path(find_config(named), known_names), None
    except ConfigError as error:
        return None, error


def nothing_found(arguments: argparse.Namespace) -> Ended:
    of = f' of "{clean(caller, style_here())}"' if (caller := getattr(arguments, "caller", None)) else ""
    return Ended(1, f"no turns{of} in that time" if arguments.since else f"no turns{of} in the ledger yet")


def read_since(text: str) -> float:
    """A moment in seconds since 1970, for `argparse`. A day begins at local midnight."""
    ago = read_ago(text)
    if ago is not None:
        return time.time() - ago
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a time ago (30m, 2h, 7d) nor a day (2026-11-01)") from None
