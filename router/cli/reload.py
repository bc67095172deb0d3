"""`tandem reload`: have a running router take its config again."""

import argparse
import json
import os
import urllib.error
from http.client import HTTPException
from pathlib import Path
from typing import Any

from router.cli import Ended
from router.cli.asking import ask
from router.cli.common import add_config_argument, command_name, print_json, refuse_config, say
from router.cli.routers import Router, all_routers
from router.config.faults import Fault
from router.config.load import ConfigError, find_config

EXAMPLES = ("reload", "reload --config work.yaml", "reload --url https://tandem.example:4000 --key-env ADMIN_KEY")
_PATH = "/tandem/reload"
_ASK_SECONDS = 60.0
_FAULTY, _UNAUTHORIZED, _FORBIDDEN = 422, 401, 403
_OWN_ID = "x-tandem-request-id"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--url", help="where the router is (default: the running one that was started with this config)")
    parser.add_argument("--key-env", metavar="NAME", help="the variable with an admin's key, for a router of somebody else")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Ask the router, and print what changed. Exit code 1: nothing was changed."""
    url = _check_url(arguments.url) if arguments.url else _find(arguments.config).url
    key = _read_key(arguments.key_env) if arguments.key_env else ""
    try:
        with ask(url, _PATH, b"", within_seconds=_ASK_SECONDS, key=key) as answer:
            told = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return _refuse(error, url, as_json=arguments.json)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Ended(1, f"no router answers at {url}: {reason}\n  hint: {command_name()} serve starts one") from error
    if arguments.json:
        print_json(told)
    else:
        _print(told, url)
    return 0


def _check_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise Ended(2, f"--url must begin with http:// or https://: {url}")
    return url.rstrip("/")


def _read_key(name: str) -> str:
    if not (key := os.environ.get(name, "").strip()):
        raise Ended(2, f"--key-env: {name} is not set")
    return key


def _find(named: str | None) -> Router:
    """The running router of a config; without one, the only router that runs. Raises `Ended`."""
    path = _find_path(named)
    running = [router for router in all_routers() if router.is_running()]
    own = [router for router in running if path is not None and router.config == path]
    if own:
        return own[0]
    start = f"{command_name()} serve{f' --config {named}' if named else ''}"
    if named or not running:
        which = f"no router is running with {path}" if path is not None else "no router is running"
        raise Ended(1, f"{which}\n  hint: {start} starts one; --url names one that another user started")
    if len(running) > 1:
        known = "\n".join(f"  {router.url}  {router.config or 'the built-in default'}" for router in running)
        raise Ended(
            1, f"several routers are running, none of them with a config of this folder:\n{known}\n  hint: --url names one"
        )
    say(f"reloading the router at {running[0].url}, which serves {running[0].config or 'the built-in default'}")
    return running[0]


def _find_path(named: str | None) -> Path | None:
    """The config's path. What is in it is for the router to read."""
    try:
        found = find_config(named)
    except ConfigError as error:
        raise refuse_config(error.source, error.faults) from error
    return found.absolute() if found is not None else None


def _print(told: Any, url: str) -> None:
    before, after = told["fingerprint"]["before"], told["fingerprint"]["after"]
    what = f"{before} → {after}" if before != after else after
    print(f"reloaded {url}: config {what}")
    for line in told["changed"] or ["nothing changed"]:
        print(f"  {line}")
    for line in told["needs_restart"]:
        print(f"  needs a restart: {line}")
    for warning in told["warnings"]:
        say(f"warning: {warning}")


def _refuse(error: urllib.error.HTTPError, url: str, *, as_json: bool) -> int:
    """Why the router did not reload. Raises `Ended`."""
    if error.headers.get(_OWN_ID) is None:
        raise Ended(1, f"what answers at {url} is not a Tandem router (status {error.code})") from error
    if error.code == _UNAUTHORIZED:
        hint = "run this as the user who started it, or name an admin's key with --key-env"
        raise Ended(1, f"the router at {url} needs a key\n  hint: {hint}") from error
    if error.code == _FORBIDDEN:
        hint = "tandem keys add NAME --admin makes a key with that right"
        raise Ended(1, f"this key may not reload the router at {url}\n  hint: {hint}") from error
    try:
        told = json.load(error)["error"]
        faults = [Fault(fault["path"], fault["problem"], fault["hint"]) for fault in told.get("faults", ())]
        message = str(told["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        told, faults, message = {}, [], f"status {error.code}"
    if as_json:
        print_json({"error": told})
        return 1
    if error.code != _FAULTY or not faults:
        raise Ended(1, f"the router at {url} did not reload: {message}") from error
    problems = refuse_config(f"the router at {url} changed nothing, since its config cannot be used", faults)
    raise Ended(1, problems.text) from error
