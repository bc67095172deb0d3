"""`tandem status`: whether a router of this config runs, where and since when."""

import argparse
import time
from typing import Any

from router.cli import installed_version
from router.cli.asking import WHOSE_KEY, Refused, Unreachable, ask_object
from router.cli.common import add_config_argument, add_json_argument, command_name, print_json, say
from router.cli.figures import duration, plural
from router.cli.reaching import RUNNING_URL, add_router_arguments, find_path, find_running_or_none, read_own_key
from router.cli.routers import Router, list_running
from router.config.reading import BUILT_IN
from router.contract.request import Json, JsonObject

EXAMPLES = (
    "status",
    "status --config work.yaml",
    "status --json",
    "status --url https://tandem.example:4000 --key-env ADMIN_KEY",
)
_ASK_SECONDS = 10.0
_NOT_READY = 503
_RUNNING = ("queued", "running")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    add_router_arguments(parser, RUNNING_URL)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1: none runs, or it does not answer."""
    key = read_own_key(arguments.key_env)
    router = find_running_or_none(arguments.config, arguments.url)
    told = describe(router, key) if router is not None else _describe_none(arguments.config)
    if arguments.json:
        print_json(told)
    elif router is not None:
        _print(told)
    else:
        _print_none(told, arguments.config)
    return 0 if told["running"] else 1


def describe(router: Router, key: str = "") -> JsonObject:
    problems: list[Any] = []

    def fetch(path: str) -> Any:
        try:
            return ask_object(router.url, path, within_seconds=_ASK_SECONDS, key=key)
        except Refused as error:
            if error.status == _NOT_READY and path == "/readyz":
                return error.told
            if error.status == _NOT_READY and path.startswith("/tandem/jobs"):
                return {}  # its store is one of the problems
            hint = WHOSE_KEY if error.status in (401, 403) else None
            problems.append({"text": f"{path} answers with status {error.status}", "hint": hint})
        except Unreachable as error:
            problems.append({"text": f"no router answers at {router.url}: {error}", "hint": None})
        return {}

    ready = fetch("/readyz")
    stats, notices = (fetch("/tandem/stats"), fetch("/tandem/notices")) if ready else ({}, {})
    running = [len(fetch(f"/tandem/jobs?state={state}&limit=100").get("data", ())) for state in _RUNNING if stats]
    problems += notices.get("notices", [])
    told = {problem["text"] for problem in problems}
    problems += [{"text": text, "hint": None} for text in ready.get("away", ()) if text not in told]
    return {
        "running": bool(ready),
        "state": ready.get("status"),
        "url": router.url,
        "pid": router.pid or None,
        "started_at": router.started_at or None,
        "version": router.version or None,
        "config": str(router.config) if router.config is not None else None,
        "fingerprint": router.fingerprint or None,
        "stores": {
            "ledger": str(router.ledger) if router.ledger is not None else None,
            "shared": [*router.shared],
            "away": ready.get("away", []),
        },
        "targets": stats.get("targets", {}),
        "jobs": {"running": sum(running), "uncollected": len(stats.get("jobs", ()))},
        "chain": stats.get("chain", []),
        "problems": problems,
    }


def _describe_none(config: str | None) -> JsonObject:
    path = find_path(config)
    others: list[Json] = [
        {"url": router.url, "config": str(router.config) if router.config else None} for router in list_running()
    ]
    return {"running": False, "config": str(path) if path is not None else None, "others": others}


def _print_none(told: Any, config: str | None) -> None:
    print(f"no router is running with {told['config'] or BUILT_IN}")
    for other in told["others"]:
        say(f"  another one runs at {other['url']}, with {other['config'] or BUILT_IN}; --url names it")
    say(f"  hint: {command_name()} serve{f' --config {config}' if config else ''} starts one")


def _print(told: Any) -> None:
    """Unknown facts are left out."""
    jobs, stores = told["jobs"], told["stores"]
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(told["started_at"])) if told["started_at"] else ""
    installed = installed_version()
    newer = f"; {installed} is installed: restart the router to use it" if told["version"] not in (None, installed) else ""
    lines = {
        "state": f"{told['state'] or 'does not answer'} at {told['url']}",
        "since": f"{since} ({duration(time.time() - told['started_at'])}), pid {told['pid']}" if since else "",
        "version": f"{told['version']}{newer}" if told["version"] else "",
        "config": f"{told['config'] or BUILT_IN} ({told['fingerprint']})" if told["fingerprint"] else "",
        "ledger": stores["ledger"] or ("off" if since else ""),
        "shared": ", ".join(stores["shared"]),
        "targets": ", ".join(f"{target['tier']} {name}" for name, target in told["targets"].items()),
        "jobs": f"{jobs['running']} running, {jobs['uncollected']} to collect" if told["targets"] else "",
        "chain": ", ".join(link["name"] for link in told["chain"] if link["on"]),
        "off": ", ".join(link["name"] for link in told["chain"] if not link["on"]),
        "problems": plural(len(told["problems"]), "problem") if told["problems"] else "none",
    }
    print("\n".join(f"{name:<10}{text}" for name, text in lines.items() if text))
    for problem in told["problems"]:
        print(f"  {problem['text']}")
        if problem.get("hint"):
            print(f"    hint: {problem['hint']}")
