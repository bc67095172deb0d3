"""`--url` and `--key-env`: which router a command asks, and as whom."""

import argparse
from pathlib import Path

from router.cli import Ended
from router.cli.common import command_name, explained_faults, say
from router.cli.routers import Router, find_at, list_running
from router.cli.setup.reach import read_key
from router.config.load import find_config
from router.config.reading import BUILT_IN

_DEFAULT_URL = "http://127.0.0.1:4000"
RUNNING_URL = "where the router is (default: the running one that was started with this config)"


def add_router_arguments(parser: argparse.ArgumentParser, url_help: str = "") -> None:
    usual = f"where the router is (default: the one that runs here, else {_DEFAULT_URL})"
    parser.add_argument("--url", help=url_help or usual)
    parser.add_argument("--key-env", metavar="NAME", help="the variable with your key, for a router that needs one")


def find_path(config: str | None) -> Path | None:
    """Raises `Ended`."""
    with explained_faults():
        found = find_config(config)
    return found.absolute() if found is not None else None


def find_running_or_none(config: str | None, url: str | None = None) -> Router | None:
    """The router of `--url` or this config; in a folder without a config, the only one running."""
    if url is not None:
        checked = find_url(url)
        return find_at(checked) or Router(checked, None, 0.0)
    path, running = find_path(config), list_running()
    own = [router for router in running if router.config == path]
    return own[0] if own else running[0] if path is None and len(running) == 1 else None


def find_running(config: str | None, url: str | None = None, *, or_only: bool = True) -> Router:
    """As `find_running_or_none`, but raises `Ended`. `or_only` allows the only running router if no config is named."""
    found = find_running_or_none(config, url)
    if found is not None:
        return found
    path, running = find_path(config), list_running()
    if config or not running:
        which = f"no router is running with {path}" if path is not None else "no router is running"
        start = f"{command_name()} serve{f' --config {config}' if config else ''}"
        raise Ended(1, f"{which}\n  hint: {start} starts one; --url names one that another user started")
    if len(running) == 1 and or_only:
        return running[0]
    known = "\n".join(f"  {router.url}  {router.config or BUILT_IN}" for router in running)
    which = "several routers are running, none of them" if len(running) > 1 else "a router is running, but not"
    raise Ended(1, f"{which} with a config of this folder:\n{known}\n  hint: --url names one")


def find_url(named: str | None) -> str:
    """Raises `Ended`."""
    if named is not None:
        if not named.startswith(("http://", "https://")):
            raise Ended(2, f"--url must begin with http:// or https://: {named}")
        return named.rstrip("/").removesuffix("/v1")
    running = list(dict.fromkeys(router.url for router in list_running()))
    if len(running) > 1:
        say(f"several routers are running: asking {running[0]}; --url names another: {', '.join(running[1:])}")
    return running[0] if running else _DEFAULT_URL


def read_own_key(variable: str | None) -> str:
    """Empty without `--key-env`. Raises `Ended`."""
    key = read_key(variable)
    if key is not None and not key.value:
        raise Ended(2, f"--key-env: {key.variable} is not set")
    return key.value if key is not None else ""
