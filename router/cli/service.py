"""`tandem service`: the router as a user service, with systemd on Linux and launchd on macOS."""

import argparse
import subprocess
import sys
from pathlib import Path

from router.cli import Ended
from router.cli.common import add_config_argument, command_name, load_or_end, say
from router.cli.routers import is_tandem, url_of
from router.cli.setup.facts import own_command
from router.cli.setup.service_file import Service, find_manager
from router.config.load import LoadedConfig, find_config

EXAMPLES = ("service install", "service install --config work.yaml", "service status", "service remove")
_RUN_SECONDS = 60.0
_ANSWER_SECONDS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("install", "status", "remove"), help="what to do")
    add_config_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Install, look at or remove the service."""
    service = find_manager(sys.platform, Path.home())
    if service is None:
        hint = "start tandem serve with your system's own service manager"
        raise Ended(2, f"neither systemd nor launchd was found\n  hint: {hint}")
    if arguments.action == "remove":
        return _remove(service)
    loaded = load_or_end(arguments.config)
    if arguments.action == "status":
        return _say_status(service, loaded)
    return install(service, loaded, arguments.config)


def install(service: Service, loaded: LoadedConfig, config: str | None) -> int:
    """Write the service's file and start it."""
    if service.path.exists() and not service.is_ours():
        problem = f"{service.path} was not written by tandem service, and was not changed"
        raise Ended(1, f"{problem}\n  hint: remove it, or change it by hand")
    found = find_config(config)
    named = ["--config", str(found.absolute())] if found is not None else []
    command, check = [*own_command(), "serve", "--log", "json", *named], [*own_command(), "check", *named]
    service.path.parent.mkdir(parents=True, exist_ok=True)
    service.path.write_text(service.write(command, check, loaded.folder.absolute()), encoding="utf-8")
    service.path.chmod(0o644)
    say(f"wrote {service.path}")
    for name in _keys_of_the_shell(loaded):
        say(f"  note: {name} is only set in this shell; add it to {loaded.folder.absolute() / '.env'} for the service")
    for step in service.start:
        problem, _ = _run(step)
        if problem:
            raise Ended(1, f"the service could not be started: {problem}\n  hint: {' '.join(step)}")
    say(f"the router is starting, and will start at every login. To check: {command_name()} service status; {service.logs}")
    return 0


def _keys_of_the_shell(loaded: LoadedConfig) -> list[str]:
    """Variables with keys that a service does not see."""
    keys = dict.fromkeys(key for plan in loaded.targets for key in plan.endpoint.secrets)
    return [str(key).removeprefix("env:") for key in keys if key.is_reference and not key.is_from_file]


def _say_status(service: Service, loaded: LoadedConfig) -> int:
    """0 means that the service is installed and a router answers."""
    server = loaded.config.server
    url = url_of(server.host, server.port, is_tls=server.tls is not None)
    answers = is_tandem(url, _ANSWER_SECONDS)
    if not service.path.exists():
        print(f"not installed ({service.path})")
    else:
        print(f"installed: {service.path}")
        _, state = _run(service.state)
        print(f"state: {next(iter(state.splitlines()), 'unknown')}")
    print(f"router: {'answers' if answers else 'does not answer'} at {url}")
    if not service.path.exists():
        say(f"  hint: {command_name()} service install")
    elif not answers:
        say(f"  hint: {service.logs}")
    return 0 if answers and service.path.exists() else 1


def _remove(service: Service) -> int:
    if not service.path.exists():
        say(f"no service is installed ({service.path})")
        return 0
    if not service.is_ours():
        raise Ended(1, f"{service.path} was not written by tandem service, and was not removed")
    for step in service.stop:
        _run(step)
    service.path.unlink()
    for step in service.after_removal:
        _run(step)
    say(f"removed {service.path}; the router is stopped")
    return 0


def _run(command: tuple[str, ...]) -> tuple[str, str]:
    """Run a step. Returns what went wrong, if anything, and what it printed."""
    try:
        done = subprocess.run(  # noqa: S603  the system's own
            command, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return getattr(error, "strerror", None) or str(error), ""
    printed = done.stdout.strip()
    return "" if done.returncode == 0 else done.stderr.strip() or printed or f"status {done.returncode}", printed


def is_offered() -> bool:
    """Whether a service can be installed here and is not yet."""
    service = find_manager(sys.platform, Path.home())
    return service is not None and not service.path.exists()
