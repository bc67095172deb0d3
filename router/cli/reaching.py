"""Which router a command asks, and as whom: `--url` and `--key-env`."""

import argparse

from router.cli import Ended
from router.cli.common import say
from router.cli.routers import all_routers
from router.cli.setup.reach import read_key

_DEFAULT_URL = "http://127.0.0.1:4000"


def add_router_arguments(parser: argparse.ArgumentParser, url_help: str = "") -> None:
    """`--url` and `--key-env`: which router to ask, and as whom."""
    usual = f"where the router is (default: the one that runs here, else {_DEFAULT_URL})"
    parser.add_argument("--url", help=url_help or usual)
    parser.add_argument("--key-env", metavar="NAME", help="the variable with your key, for a router that needs one")


def find_url(named: str | None) -> str:
    """The router that `--url` names; without it, the one of this user that runs. Raises `Ended`."""
    if named is not None:
        if not named.startswith(("http://", "https://")):
            raise Ended(2, f"--url must begin with http:// or https://: {named}")
        return named.rstrip("/").removesuffix("/v1")
    running = list(dict.fromkeys(router.url for router in all_routers() if router.is_running()))
    if len(running) > 1:
        say(f"several routers are running: asking {running[0]}; --url names another: {', '.join(running[1:])}")
    return running[0] if running else _DEFAULT_URL


def read_own_key(variable: str | None) -> str:
    """The key in the variable that `--key-env` names; empty without it. Raises `Ended`."""
    key = read_key(variable)
    if key is not None and not key.value:
        raise Ended(2, f"--key-env: {key.variable} is not set")
    return key.value if key is not None else ""
