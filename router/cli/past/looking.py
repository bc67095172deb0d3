"""What the commands that look back share: which ledger, since when, in which format, and what to print when it is empty."""

import argparse
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from router.cli import Ended
from router.cli.common import add_config_argument, known_names, refuse_config, say, whole_number_between
from router.cli.routers import find_router
from router.cli.tables import style_here
from router.config.load import ConfigError, find_config, load_ledger_path
from router.contract.past import RecordedTurn
from router.contract.spending import read_ago
from router.contract.stores import EntryReader, StoreUnusable
from router.screen.figures import plural
from router.screen.text import clean
from router.stores.sqlite.past import SqliteEntryReader, wait_for_writer

Found = TypeVar("Found")


def add_looking_arguments(parser: argparse.ArgumentParser, counted: str = "") -> None:
    """The arguments of `log`, `sessions` and `stats`. `counted` is what `-n` limits."""
    add_config_argument(parser)
    add_since_argument(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    if counted:
        number, help_text = whole_number_between(1, 100_000), f"how many {counted} (default: 20)"
        parser.add_argument("-n", "--count", type=number, default=20, metavar="N", help=help_text)


def find_ledger(arguments: argparse.Namespace) -> Path:
    """The ledger to read. Raises `Ended`.

    A config that was named, or is in this folder, comes first. Elsewhere a running router knows better than a config which
    ledger is meant; if the config's does not exist yet, so does the last router that ran.
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
    """The ledger of the config, or what is wrong with the config."""
    try:
        return load_ledger_path(find_config(named), known_names), None
    except ConfigError as error:
        return None, error


def look(path: Path, read: Callable[[EntryReader], Found]) -> Found:
    """Read a ledger. Raises `Ended`."""
    ledger = SqliteEntryReader(path)
    try:
        wait_for_writer(path)
        found = read(ledger)
        if passed_over := ledger.count_passed_over():
            say(f"left out {plural(passed_over, 'row')} of {path} that Tandem did not write")
        return found
    except StoreUnusable as error:
        raise Ended(1, str(error)) from error


def find_recorded_turn(path: Path, request_id: str | None) -> RecordedTurn:
    """A turn of a ledger. Raises `Ended`."""
    turn = look(path, lambda ledger: ledger.find_turn(request_id))
    if turn is None:
        raise Ended(1, _say_missing(path, request_id))
    return turn


def _say_missing(path: Path, request_id: str | None) -> str:
    if request_id is None:
        return f"no turn in {path} yet"
    undecided = look(path, lambda ledger: ledger.find_undecided(request_id))
    return f"no request {request_id} in {path}" if undecided is None else f"no tier was chosen for {request_id}: {undecided}"


def nothing_found(arguments: argparse.Namespace) -> Ended:
    """The ledger holds nothing of what was asked for."""
    of = f' of "{clean(caller, style_here())}"' if (caller := getattr(arguments, "caller", None)) else ""
    return Ended(1, f"no turns{of} in that time" if arguments.since else f"no turns{of} in the ledger yet")


def add_since_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", type=read_since, default=0.0, metavar="WHEN", help="30m, 2h, 7d, or a day as in 2026-11-01 (default: all)"
    )


def read_since(text: str) -> float:
    """The moment that is meant, in seconds since 1970. A day begins at midnight here. For `argparse`."""
    ago = read_ago(text)
    if ago is not None:
        return time.time() - ago
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a time ago (30m, 2h, 7d) nor a day (2026-11-01)") from None
