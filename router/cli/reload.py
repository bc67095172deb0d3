"""`tandem reload`: have a running router reload its config."""

import argparse
from typing import Any

from router.cli import Ended
from router.cli.asking import Refused, Unreachable, ask_object, explain_refusal
from router.cli.common import add_config_argument, add_json_argument, print_json, refuse_config, say
from router.cli.reaching import RUNNING_URL, add_router_arguments, find_path, find_running, read_own_key
from router.config.faults import Fault
from router.config.reading import BUILT_IN
from router.contract.request import objects_in
from router.dialects.fields import as_object

EXAMPLES = ("reload", "reload --config work.yaml", "reload --url https://tandem.example:4000 --key-env ADMIN_KEY")
_PATH = "/tandem/reload"
_ASK_SECONDS = 60.0
_FAULTY, _UNAUTHORIZED, _FORBIDDEN = 422, 401, 403


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    add_router_arguments(parser, RUNNING_URL)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1: nothing changed."""
    key, router = read_own_key(arguments.key_env), find_running(arguments.config, arguments.url)
    url = router.url
    if not arguments.url and router.config != find_path(arguments.config):
        say(f"reloading the router at {url}, which serves {router.config or BUILT_IN}")
    try:
        told = ask_object(url, _PATH, b"", within_seconds=_ASK_SECONDS, key=key)
    except Refused as error:
        return _refuse(error, url, as_json=arguments.json)
    except Unreachable as error:
        raise explain_refusal(url, error) from error
    if arguments.json:
        print_json(told)
    else:
        _print(told, url)
    return 0


def _print(told: Any, url: str) -> None:
    before, after = told["fingerprint"]["before"], told["fingerprint"]["after"]
    what = f"{before} → {after}" if before != after else after
    print(f"reloaded {url}: config {what}")
    for block in told["changed"]:
        print(f"  changed: {block}")
    if told["needs_restart"]:
        print(f"  needs a restart, and stays as before until then: {', '.join(told['needs_restart'])}")
    elif not told["changed"]:
        print("  nothing changed")
    for warning in told["warnings"]:
        say(f"warning: {warning}")


def _refuse(error: Refused, url: str, *, as_json: bool) -> int:
    """Raises `Ended`."""
    if error.status == _UNAUTHORIZED:
        raise explain_refusal(url, error) from error
    if error.status == _FORBIDDEN:
        hint = "tandem keys add NAME --admin makes a key with that right"
        raise Ended(1, f"this key may not reload the router at {url}\n  hint: {hint}") from error
    told = as_object(error.told.get("error"))
    if as_json:
        print_json({"error": told})
        return 1
    faults = [
        Fault(**{name: str(fault[name]) for name in ("path", "problem", "hint")}) for fault in objects_in(told.get("faults"))
    ]
    if error.status != _FAULTY or not faults:
        raise Ended(1, f"the router at {url} did not reload: {error}") from error
    problems = refuse_config(f"the router at {url} changed nothing, since its config cannot be used", faults)
    raise Ended(1, problems.text) from error
