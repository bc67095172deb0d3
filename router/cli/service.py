"""`tandem service`: the router as a user service, from the templates in `docs/deploy/user`."""

import argparse
import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from router.cli import Ended
from router.cli.common import add_config_argument, command_name, load_in_use, path_of, say, url_in_use
from router.cli.routers import is_tandem
from router.cli.setup.facts import own_command
from router.config.load import LoadedConfig

EXAMPLES = ("service install", "service install --config work.yaml", "service status", "service remove")
_RUN_SECONDS = 60.0
_ANSWER_SECONDS = 1.0
_MARK = "written by tandem service"
_WRITTEN = f"{_MARK}; tandem service remove deletes it. Keys: .env next to the config"
_LABEL = "dev.tandem.router"
_UNIT = "tandem.service"
_LOG = Path("Library", "Logs", "tandem.log")

Step = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Service:
    path: Path
    home: Path
    start: tuple[Step, ...]
    stop: tuple[Step, ...]
    state: Step
    logs: str
    after_removal: tuple[Step, ...] = ()
    log: tuple[str, ...] = ()
    """Options of `serve` where the manager keeps no log of its own."""

    def is_ours(self) -> bool:
        try:
            return _MARK in self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return False

    def write(self, command: list[str], check: list[str], folder: Path) -> str:
        """`check` tests the config before a reload."""
        template = _read_template(self.path.name)
        if self.path.name == _UNIT:
            return _fill_unit(template, command, check, folder)
        log = str(self.home / _LOG)
        own = {"ProgramArguments": command, "WorkingDirectory": str(folder), "StandardOutPath": log, "StandardErrorPath": log}
        written = plistlib.dumps({**plistlib.loads(template.encode()), **own}, sort_keys=False).decode()
        return written.replace("<plist", f"<!-- {_WRITTEN}. -->\n<plist", 1)


def _read_template(name: str) -> str:
    """A file of `docs/deploy/user`, packaged when installed."""
    packaged = resources.files("router.cli") / "setup" / "templates" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).resolve().parents[2] / "docs" / "deploy" / "user" / name).read_text(encoding="utf-8")


def _fill_unit(template: str, command: list[str], check: list[str], folder: Path) -> str:
    # systemd expands % and $ in a command; quotes work as in a shell.
    run, look = (
        " ".join(shlex.quote(word).replace("%", "%%").replace("$", "$$") for word in line) for line in (command, check)
    )
    own = {
        r"\A(?:#.*\n)+": f"# {_WRITTEN}, or ~/.config/tandem/keys.env.\n",
        r"^ExecStart=.*": f"ExecStart={run}",
        r"^ExecReload=.* check$": f"ExecReload={look}",
        r"^WorkingDirectory=.*": f"WorkingDirectory={str(folder).replace('%', '%%')}",
    }
    for line, written in own.items():
        template = re.sub(line, lambda _, written=written: written, template, count=1, flags=re.MULTILINE)  # type: ignore[misc]
    return template


def find_manager(platform: str, home: Path) -> Service | None:
    """None without a known manager."""
    if platform == "darwin":
        path, domain = home / "Library" / "LaunchAgents" / f"{_LABEL}.plist", f"gui/{os.getuid()}"
        return Service(
            path,
            home,
            start=(("launchctl", "bootstrap", domain, str(path)),),
            stop=(("launchctl", "bootout", f"{domain}/{_LABEL}"),),
            state=("launchctl", "list", _LABEL),
            logs=f"its log: ~/{_LOG}",
            log=("--log-file", str(home / _LOG)),
        )
    if platform != "linux" or shutil.which("systemctl") is None:
        return None
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user"
    systemctl = ("systemctl", "--user")
    return Service(
        folder / _UNIT,
        home,
        start=((*systemctl, "daemon-reload"), (*systemctl, "enable", "tandem"), (*systemctl, "restart", "tandem")),
        stop=((*systemctl, "disable", "--now", "tandem"),),
        state=(*systemctl, "is-active", "tandem"),
        logs="its log: journalctl --user -u tandem",
        after_removal=((*systemctl, "daemon-reload"),),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("install", "status", "remove"), help="what to do")
    add_config_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    service = find_manager(sys.platform, Path.home())
    if service is None:
        hint = "start tandem serve with your system's own service manager"
        raise Ended(2, f"neither systemd nor launchd was found\n  hint: {hint}")
    if arguments.action == "remove":
        return _remove(service)
    loaded = load_in_use(arguments.config)
    if arguments.action == "status":
        return _say_status(service, loaded)
    return _install(service, loaded)


def _install(service: Service, loaded: LoadedConfig) -> int:
    if service.path.exists() and not service.is_ours():
        problem = f"{service.path} was not written by tandem service, and was not changed"
        raise Ended(1, f"{problem}\n  hint: remove it, or change it by hand")
    found = path_of(loaded)
    named = ["--config", str(found.absolute())] if found is not None else []
    command, check = [*own_command(), "serve", "--log", "json", *service.log, *named], [*own_command(), "check", *named]
    service.path.parent.mkdir(parents=True, exist_ok=True)
    service.path.write_text(service.write(command, check, loaded.folder.absolute()), encoding="utf-8")
    service.path.chmod(0o644)
    say(f"wrote {service.path}")
    keys = dict.fromkeys(key for plan in loaded.targets for key in plan.endpoint.secrets)
    for name in (str(key).removeprefix("env:") for key in keys if key.is_reference and not key.is_from_file):
        say(f"  note: {name} is only set in this shell; add it to {loaded.folder.absolute() / '.env'} for the service")
    for step in service.start:
        problem, _ = _run(step)
        if problem:
            raise Ended(1, f"the service could not be started: {problem}\n  hint: {' '.join(step)}")
    say(f"the router is starting, and will start at every login. To check: {command_name()} service status; {service.logs}")
    return 0


def _say_status(service: Service, loaded: LoadedConfig) -> int:
    """Exit code 0: installed, and a router answers."""
    url = url_in_use(loaded)
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
    """Returns its error, or an empty text, and its output."""
    try:
        done = subprocess.run(  # noqa: S603  the system's own
            command, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return getattr(error, "strerror", None) or str(error), ""
    printed = done.stdout.strip()
    return "" if done.returncode == 0 else done.stderr.strip() or printed or f"status {done.returncode}", printed


def is_offered() -> bool:
    service = find_manager(sys.platform, Path.home())
    return service is not None and not service.path.exists()
