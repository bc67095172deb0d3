"""Choose an interpreter, create the environment with it, and install a lock there: `make` calls it where there is none yet.

`python3 requirements/choose_python.py .venv serve [PYTHON]`. A build with profile guidance runs the router with 6 to 12 % less
CPU, so one is preferred to `python3`. Standard library only, and readable for Python 3.6: any `python3` may run it.
"""

import glob
import json
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
OLDEST, NEWEST = (3, 11), (3, 14)
"""The locks are resolved for the oldest and newer ones. What is newer than the newest may lack wheels and is not chosen."""
NAMES = ("python3", *(f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)))
PLACES = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
VERSIONS = (os.path.join(os.environ.get("PYENV_ROOT", "~/.pyenv"), "versions"), "~/.local/share/uv/python")
PATIENCE_SECONDS = 10
SETTINGS = ("CONFIG_ARGS", "PY_CFLAGS", "PGO_PROF_USE_FLAG")
DESCRIBE = f"""
import json, sys, sysconfig
try:
    import ensurepip, venv, sqlite3, ssl
    creates = bool(ensurepip.version())
except Exception:
    creates = False
is_threaded = sysconfig.get_config_var("Py_GIL_DISABLED")
is_release = sys.version_info[3] == "final" and sys.implementation.name == "cpython" and not is_threaded
print(json.dumps([sys.version_info[:3], sysconfig.get_config_vars(*{SETTINGS}), creates, is_release]))
"""


class Interpreter(NamedTuple):
    """A Python of this machine, as it describes itself."""

    path: str
    version: "tuple[int, ...]"
    is_guided: bool
    """Whether it was built with profile guidance."""
    creates_environments: bool = True
    is_release: bool = True
    """A final CPython that is not free-threaded: most wheels are for these."""

    def __str__(self) -> str:
        return "{} ({})".format(self.path, ".".join(map(str, self.version)))

    @property
    def is_new_enough(self) -> bool:
        return self.version >= OLDEST

    @property
    def fits(self) -> bool:
        return self.is_new_enough and self.version[:2] <= NEWEST and self.is_release

    @property
    def package(self) -> str:
        return "On Debian and Ubuntu: sudo apt install python{}.{}-venv".format(*self.version)


class Choice(NamedTuple):
    """The interpreter to use, or None; why; and the one to use if it fails."""

    python: "Interpreter | None"
    because: str
    otherwise: "Interpreter | None" = None


def is_guided(config_args: object, flags: object, use_flag: object) -> bool:
    """Whether a build's settings name profile guidance. `configure` always fills in the third; Debian empties it."""
    return "--enable-optimizations" in str(config_args) or "-fprofile-use" in str(flags) or use_flag == ""


def choose(default: "Interpreter | None", others: "list[Interpreter]") -> Choice:
    """`python3`, unless it cannot be used or another one has profile guidance: then first one of its own minor version."""
    usable = default if default and default.is_new_enough and default.creates_environments else None
    if usable and usable.is_guided:
        return Choice(usable, "built with profile guidance")
    fitting = [other for other in others if other.fits]
    fitting.sort(
        key=lambda it: (it.is_guided, bool(default and it.version[:2] == default.version[:2]), it.version), reverse=True
    )
    best = next((other for other in fitting if other.creates_environments), None)
    if best and (best.is_guided or not usable):
        return Choice(
            best, (f"built with profile guidance; {explain(default)}" if best.is_guided else explain(default)), usable
        )
    if not usable:
        return Choice(None, refuse(default, "python3"))
    bare = next((other for other in fitting if other.is_guided), None)
    if bare:
        return Choice(
            usable, f"{bare} has profile guidance (6 to 12 % less CPU) but cannot create environments. {bare.package}"
        )
    return Choice(usable, "no Python with profile guidance found")


def explain(default: "Interpreter | None") -> str:
    """Why `python3` was not taken."""
    if default is None:
        return "python3 is not here"
    if not default.is_new_enough:
        return f"{default} is too old"
    return f"{default} is not" if default.creates_environments else f"{default} cannot create environments"


def refuse(python: "Interpreter | None", name: str) -> str:
    if python and python.is_new_enough:
        return f"{name} cannot create environments. {python.package}"
    found = "Python {}".format(".".join(map(str, python.version))) if python else "not here"
    return f"Tandem needs Python 3.11 or newer, and {name} is {found}"


def describe(path: str) -> "Interpreter | None":
    """What an interpreter says of itself; None if it does not run."""
    try:
        command = [path, "-I", "-c", DESCRIBE]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=True)
        version, settings, creates, is_release = json.loads(done.stdout.decode())
        return Interpreter(path, tuple(version), is_guided(*settings), creates, is_release)
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        return None


def find() -> "list[str]":
    """The interpreters of this machine, each once. Scripts are left out: shims lead to what is found anyway."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder] + list(PLACES)
    if sys.platform == "darwin":  # macOS keeps a placeholder there, which asks the user to install Apple's tools
        folders = [folder for folder in folders if folder != "/usr/bin"]
    found = [shutil.which(name, path=folder) for folder in folders for name in NAMES]
    for versions in VERSIONS:
        found += sorted(glob.glob(os.path.join(os.path.expanduser(versions), "*", "bin", "python3")))
    real = {}
    for path in filter(None, found):
        real.setdefault(os.path.realpath(path), path)
    return [path for target, path in real.items() if not is_script(target)]


def is_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def decide(given: str) -> Choice:
    """The interpreter that the person named, or the best one here."""
    default = describe(given or "python3")
    if not given:
        others = [] if default and default.is_guided and default.creates_environments else map(describe, find())
        return choose(default, [other for other in others if other])
    if default and default.is_new_enough and default.creates_environments:
        return Choice(default, "as PYTHON says")
    instead = None if default and default.is_new_enough else choose(None, list(filter(None, map(describe, find())))).python
    hint = f". Without PYTHON, make takes {instead}" if instead else ""
    return Choice(None, refuse(default, given) + hint)


def create(python: Interpreter, folder: str, lock: str) -> int:
    """Create the environment and install the lock into it. Returns the exit code of what failed."""
    code = subprocess.call([python.path, "-m", "venv", "--clear", folder])
    inside = os.path.join(folder, "bin", "python")
    return code or subprocess.call([inside, os.path.join(HERE, "install.py"), lock])


def main(folder: str, lock: str, given: str = "") -> int:
    choice = decide(given)
    if choice.python is None:
        print(choice.because)
        return 1
    print(f"Creating {os.path.basename(folder)} with {choice.python}: {choice.because}", flush=True)
    code = create(choice.python, folder, lock)
    if code and code != 130 and choice.otherwise:
        print(f"That failed with {choice.python.path}. Trying {choice.otherwise}", flush=True)
        code = create(choice.otherwise, folder, lock)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        print()
        sys.exit(130)
