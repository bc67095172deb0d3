"""`tandem service`: the router as a user service, from the templates in `docs/deploy/user`."""

import argparse
import os
import plistlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from router.cli import Ended
from router.cli.common import add_config_argument, command_name, load_in_use, path_of, say, url_in_use
from router.cli.routers import is_listening, is_tandem, url_of
from router.cli.setup.facts import own_command
from router.config.load import LoadedConfig
from router.edge.server import CannotListen, check_host

EXAMPLES = (
    "service install",
    "service install --print",
    "service install --config work.yaml",
    "service status",
    "service remove",
)
_RUN_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
"""The question may start the router."""
_MARK = "written by tandem service"
_WRITTEN = f"{_MARK}; tandem service remove deletes it. Keys: .env next to the config"
_LABEL = "dev.tandem.router"
_UNIT, _SOCKET = "tandem.service", "tandem.socket"
_LOG = Path("Library", "Logs", "tandem.log")
_HEAD = r"\A(?:#.*\n)+"

Step = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Service:
    path: Path
    home: Path
    start: tuple[Step, ...]
    """The last one starts the router. Without it, the next login does."""
    stop: tuple[Step, ...]
    state: Step
    logs: str
    after_removal: tuple[Step, ...] = ()
    socket: Path | None = None
    """The file by which the manager listens for the router, and starts it with the first connection."""

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path,) if self.socket is None else (self.path, self.socket)

    @property
    def is_installed(self) -> bool:
        return self.path.exists()

    @property
    def starts(self) -> str:
        """When it starts the router, or would."""
        by_request = self.socket is not None and (self.socket.exists() or not self.is_installed)
        return "at login, and with the first request if it is not running" if by_request else "at login"

    def write(self, command: list[str], check: list[str], folder: Path, address: str) -> dict[Path, str]:
        """The text of each file. `check` tests the config before a reload."""
        template = _read_template(self.path.name)
        if self.socket is not None:
            unit = _fill_unit(template, command, check, folder)
            listens = {_HEAD: f"# {_WRITTEN}.\n", r"^ListenStream=.*": f"ListenStream={address}"}
            return {self.path: unit, self.socket: _replace_lines(_read_template(self.socket.name), listens)}
        log = str(self.home / _LOG)
        own = {"ProgramArguments": command, "WorkingDirectory": str(folder), "StandardOutPath": log, "StandardErrorPath": log}
        written = plistlib.dumps({**plistlib.loads(template.encode()), **own}, sort_keys=False).decode()
        return {self.path: written.replace("<plist", f"<!-- {_WRITTEN}. -->\n<plist", 1)}


def _is_ours(path: Path) -> bool:
    try:
        return _MARK in path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


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
        _HEAD: f"# {_WRITTEN}, or ~/.config/tandem/keys.env.\n",
        r"^ExecStart=.*": f"ExecStart={run}",
        r"^ExecReload=.* check$": f"ExecReload={look}",
        r"^WorkingDirectory=.*": f"WorkingDirectory={str(folder).replace('%', '%%')}",
    }
    return _replace_lines(template, own)


def _replace_lines(template: str, own: dict[str, str]) -> str:
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
        )
    if platform != "linux" or shutil.which("systemctl") is None:
        return None
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user"
    systemctl = ("systemctl", "--user")
    return Service(
        folder / _UNIT,
        home,
        start=(
            (*systemctl, "daemon-reload"),
            (*systemctl, "enable", _SOCKET, _UNIT),
            (*systemctl, "start", _SOCKET, _UNIT),
        ),
        stop=((*systemctl, "disable", "--now", _SOCKET), (*systemctl, "disable", "--now", _UNIT)),
        state=(*systemctl, "is-active", "tandem"),
        logs="its log: journalctl --user -u tandem",
        after_removal=((*systemctl, "daemon-reload"),),
        socket=folder / _SOCKET,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("install", "status", "remove"), help="what to do")
    add_config_argument(parser)
    parser.add_argument("--print", action="store_true", help="print what would be written, and change no file (install)")


def run(arguments: argparse.Namespace) -> int:
    if arguments.print and arguments.action != "install":
        raise Ended(2, "--print is for tandem service install")
    service = find_service()
    if service is None:
        hint = "start tandem serve with your system's own service manager"
        raise Ended(2, f"neither systemd nor launchd was found\n  hint: {hint}")
    if arguments.action == "remove":
        return _remove(service)
    loaded = load_in_use(arguments.config)
    if arguments.action == "status":
        return _say_status(service, loaded)
    files = _write_files(service, loaded)
    if arguments.print:
        print("\n".join(f"# {path}\n{text}" for path, text in files.items()), end="")
        return 0
    return install(service, loaded, files)


def find_service() -> Service | None:
    return find_manager(sys.platform, Path.home())


def _write_files(service: Service, loaded: LoadedConfig) -> dict[Path, str]:
    """Raises `Ended` for an address that a service cannot have."""
    server = loaded.config.server
    if server.port == 0:
        raise Ended(2, "server.port is 0, so clients would not know the router's port\n  hint: set server.port")
    try:
        check_host(server.host, needs_keys=loaded.keys is not None)
    except CannotListen as error:
        raise Ended(2, str(error)) from error
    found = path_of(loaded)
    named = ["--config", str(found.absolute())] if found is not None else []
    command, check = [*own_command(), "serve", "--log", "json", *named], [*own_command(), "check", *named]
    return service.write(command, check, loaded.folder.absolute(), _find_address(server.host, server.port))


def _find_address(host: str, port: int) -> str:
    """As systemd writes it, which takes no names."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4][0]
    return f"[{address}]:{port}" if family is socket.AF_INET6 else f"{address}:{port}"


def install(service: Service, loaded: LoadedConfig, files: dict[Path, str]) -> int:
    if strange := next((path for path in files if path.exists() and not _is_ours(path)), None):
        problem = f"{strange} was not written by tandem service, and was not changed"
        raise Ended(1, f"{problem}\n  hint: remove it, or change it by hand")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        say(f"wrote {path}")
    keys = dict.fromkeys(key for plan in loaded.targets for key in plan.endpoint.secrets)
    for name in (str(key).removeprefix("env:") for key in keys if key.is_reference and not key.is_from_file):
        say(f"  note: {name} is only set in this shell; add it to {loaded.folder.absolute() / '.env'} for the service")
    for step in service.stop:  # an earlier one, whose address is needed
        _run(step)
    server = loaded.config.server
    is_taken = is_listening(url := url_of(server.host, server.port, is_tls=server.tls is not None))
    for step in service.start[:-1] if is_taken else service.start:
        problem, _ = _run(step)
        if problem:
            raise Ended(1, f"the service could not be started: {problem}\n  hint: {' '.join(step)}")
    tandem = command_name()
    if is_taken:
        say(f"another router or program uses {url}, so the service starts with the next login")
        say(f"  To start it now: {tandem} stop, then {tandem} service install")
        return 0
    say(f"the router is starting. From now on the service starts it {service.starts}.")
    say(f"  To check: {tandem} service status; {service.logs}")
    return 0


def _say_status(service: Service, loaded: LoadedConfig) -> int:
    """Exit code 0: installed, and a router answers."""
    url = url_in_use(loaded)
    answers = is_tandem(url, _ANSWER_SECONDS)
    if not service.is_installed:
        print(f"not installed ({service.path})")
    else:
        print(f"installed: {service.path}")
        _, state = _run(service.state)
        print(f"state: {next(iter(state.splitlines()), 'unknown')}")
    print(f"router: {'answers' if answers else 'does not answer'} at {url}")
    if not service.is_installed:
        say(f"  hint: {command_name()} service install")
    elif not answers:
        say(f"  hint: {service.logs}")
    return 0 if answers and service.is_installed else 1


def _remove(service: Service) -> int:
    if not service.is_installed:
        say(f"no service is installed ({service.path})")
        return 0
    written = [path for path in service.files if path.exists()]
    if strange := next((path for path in written if not _is_ours(path)), None):
        raise Ended(1, f"{strange} was not written by tandem service, and was not removed")
    for step in service.stop:
        _run(step)
    for path in written:
        path.unlink()
    for step in service.after_removal:
        _run(step)
    say(f"removed {' and '.join(map(str, written))}; the router is stopped")
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
