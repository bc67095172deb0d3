"""`tandem stop`: stop a running router, gracefully or with `--now`."""

import argparse
import os
import signal
import time
from contextlib import suppress
from typing import Any

from router.cli import Ended
from router.cli.common import add_config_argument, add_json_argument, command_name, print_json, say
from router.cli.figures import plural
from router.cli.reaching import RUNNING_URL, find_path, find_running
from router.cli.routers import Router, all_routers, find_at, is_alive, is_tandem
from router.cli.status import describe
from router.stores.sqlite.lock import find_owner

EXAMPLES = ("stop", "stop --now", "stop --config work.yaml", "stop --url http://127.0.0.1:4001")
_WAIT_SECONDS, _LOOK_SECONDS, _AGAIN_SECONDS, _ASK_SECONDS = 900.0, 0.05, 0.5, 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--url", help=RUNNING_URL)
    parser.add_argument("--now", action="store_true", help="cut off what is being served")
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1: there is no router, or it did not end."""
    router = find_running(arguments.config, arguments.url, or_only=find_path(arguments.config) is None)
    pid, began = _find_process(router), time.monotonic()
    running = 0 if arguments.now else _count_running(router)
    if running:
        say(f"waiting for {plural(running, 'request')}, up to limits.drain_seconds; {command_name()} stop --now cuts them off")
    try:
        _signal(pid, is_now=arguments.now, router=router)
    except PermissionError as error:
        raise Ended(1, f"the router at {router.url} belongs to another user (pid {pid})\n  hint: sudo kill {pid}") from error
    took = time.monotonic() - began
    if arguments.json:
        print_json({"url": router.url, "pid": pid, "waited_for": running, "took_seconds": round(took, 3)})
    else:
        print(f"stopped the router at {router.url} (pid {pid}) in {took:.1f} s")
    if router.is_service:
        say("a service manager started it, and may start it again")
        say(f"  hint: {command_name()} service remove, systemctl --user stop tandem.socket or docker stop ends that")
    return 0


def _find_process(router: Router) -> int:
    """By the ledger's lock, else by the record if the router answers. Raises `Ended`."""
    owner = find_owner(router.ledger) if router.ledger is not None else None
    pid = owner.pid if owner is not None else 0
    if not pid and is_tandem(router.url, _ASK_SECONDS):
        pid = (find_at(router.url) or router).pid  # its service manager may have started it for this question
    if not pid:
        raise Ended(1, f"which process serves {router.url} is not known\n  hint: stop it where it was started, with Ctrl-C")
    return pid


def _count_running(router: Router) -> int:
    targets: Any = describe(router)["targets"]
    return sum(target.get("in_flight", 0) for target in targets.values())


def _signal(pid: int, *, is_now: bool, router: Router) -> None:
    """Signal the process until it ends; a second signal cuts requests off. Raises `Ended`."""
    deadline, again_at = time.monotonic() + _WAIT_SECONDS, 0.0
    asked = 0
    while not _has_ended(pid, router):
        now = time.monotonic()
        if now > deadline:
            raise Ended(1, f"the router at {router.url} (pid {pid}) is still stopping\n  hint: {command_name()} stop --now")
        if not asked or (is_now and now >= again_at):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            asked, again_at = asked + 1, now + _AGAIN_SECONDS
        time.sleep(_LOOK_SECONDS)


def _has_ended(pid: int, router: Router) -> bool:
    """Whether address and ledger are free. The process may stay until its parent reaps it.

    Nothing connects: where a service manager listens, that would start the router again.
    """
    if not is_alive(pid):
        return True
    if any(known.started_at == router.started_at and known.pid for known in all_routers()):
        return False
    return router.ledger is None or find_owner(router.ledger) is None
