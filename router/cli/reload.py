"""`tandem reload`: have a running router reload its config."""

import argparse
import json
import urllib.error
from http.client import HTTPException
from typing import Any

from router.cli import Ended
from router.cli.asking import ask
from router.cli.common import add_config_argument, add_json_argument, command_name, print_json, refuse_config, say
from router.cli.reaching import RUNNING_URL, add_router_arguments, find_path, find_running, read_own_key
from router.config.faults import Fault

EXAMPLES = ("reload", "reload --config work.yaml", "reload --url https://tandem.example:4000 --key-env ADMIN_KEY")
_PATH = "/tandem/reload"
_ASK_SECONDS = 60.0
_FAULTY, _UNAUTHORIZED, _FORBIDDEN = 422, 401, 403
_OWN_ID = "x-tandem-request-id"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    add_router_arguments(parser, RUNNING_URL)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1: nothing changed."""
    key, router = read_own_key(arguments.key_env), find_running(arguments.config, arguments.url)
    url = router.url
    if not arguments.url and router.config != find_path(arguments.config):
        say(f"reloading the router at {url}, which serves {router.config or 'the built-in default'}")
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
    """Raises `Ended`."""
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
