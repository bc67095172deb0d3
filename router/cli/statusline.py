"""`tandem statusline`: a line for Claude Code's status line.

It reads the ledger by session id, without a request to a busy router, and with a key asks for the budget that is left. Imports
are light: Claude Code calls it often.
"""

import argparse
import json
import os
import sys
from contextlib import closing
from urllib.parse import urlsplit

from router.cli import Ended
from router.cli.routers import find_router, is_listening
from router.contract.spending import as_units, show_usd
from router.stores.sqlite.one_session import read_session

EXAMPLES = (
    "statusline",
    "statusline --url http://127.0.0.1:4000",
    "statusline --url https://tandem.example.com --key-env TANDEM_KEY",
)
_CLIENT = "claude-code"
_CONNECT_SECONDS = 0.2
_ASK_SECONDS = 0.5
_MAX_CHARS = 60
_MAX_BYTES = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="the config file, for what is not given here; reading it takes longer")
    parser.add_argument("--url", help="where the router is")
    parser.add_argument("--ledger", metavar="FILE", help="read the ledger (default: the router's)")
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        help="the variable with your key: shows what is left of the day's budget, and needs no ledger",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print one line, whatever happens: it is part of a screen."""
    url, ledger = arguments.url, arguments.ledger
    if url is None:
        url, ledger = _look_up(arguments.config, ledger)
    if ledger is None or not os.path.isfile(ledger):
        router = find_router(url)
        ledger = str(router.ledger) if router is not None else ledger
    session = _session_of(sys.stdin.read() if not sys.stdin.isatty() else "")
    key = os.environ.get(arguments.key_env, "") if arguments.key_env else ""
    print(f"tandem: {_say(url, ledger, session, key)}")
    return 0


def _look_up(config: str | None, ledger: str | None) -> tuple[str, str | None]:
    """Its import takes longer than all the rest."""
    from router.cli.common import load_in_use, url_in_use

    try:
        loaded = load_in_use(config, needs_keys=False)
    except Ended:
        return "", ledger
    return url_in_use(loaded), ledger or (str(loaded.ledger_path) if loaded.ledger_path else None)


def _session_of(text: str) -> str:
    try:
        told = json.loads(text)
    except ValueError:
        return ""
    session = told.get("session_id") if isinstance(told, dict) else None
    return session if isinstance(session, str) else ""


def _say(url: str, ledger: str | None, session: str, key: str = "") -> str:
    if not is_listening(url, _CONNECT_SECONDS):
        return "not running"
    left = say_left(ask_budget(url, key)) if key else ""
    if ledger is None or not os.path.isfile(ledger):
        return left or "running, without a ledger"
    rows = read_session(ledger, f"{_CLIENT}:{session}") if session else []
    told = describe(rows) if rows else "running, no turn yet"
    return f"{told} · {left}" if left else told


def ask_budget(url: str, key: str) -> object:
    """None without a timely answer."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # only for callers with a key

    parts = urlsplit(url)
    # No redirects and no proxy: the key is for this address alone.
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        with closing(connect(parts.hostname or "", parts.port, timeout=_ASK_SECONDS)) as connection:
            connection.request("GET", f"{parts.path.rstrip('/')}/tandem/stats", headers={"authorization": f"Bearer {key}"})
            told = json.loads(connection.getresponse().read(_MAX_BYTES))
    except (OSError, ValueError, HTTPException):
        return None
    return told.get("budget") if isinstance(told, dict) else None


def say_left(budget: object) -> str:
    """What is left of the day or the month, where that is less."""
    found: list[tuple[float, float, str]] = []
    for period, words in (("day", "left today"), ("month", "left this month")):
        match budget.get(period) if isinstance(budget, dict) else None:
            case {"left_usd": int() | float() as left, "limit_usd": int() | float() as limit}:
                found.append((left, limit, words))
    if not found:
        return ""
    left, limit, words = min(found)
    return f"{show_usd(as_units(left)).removesuffix(' USD')} of {show_usd(as_units(limit))} {words}"


def describe(rows: list[tuple[str, str, str]]) -> str:
    """The reason is the first call's unless the tier has changed."""
    asks = [row for row in rows if row[0] != "tool_loop"]
    _, tier, because = rows[-1]
    if asks and asks[-1][1] == tier:
        because = asks[-1][2]
    because = (because or "").removeprefix("looks like a ").removeprefix("looks like ")
    because = "".join(letter if letter.isprintable() else "?" for letter in str(because))
    because = because if len(because) <= _MAX_CHARS else because[: _MAX_CHARS - 1].rstrip(" ,;:") + "…"
    return " · ".join(part for part in (tier, because, f"turn {len(asks)}" if asks else "") if part)
