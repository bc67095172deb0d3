"""Two versions of the router's code, side by side in a temporary folder: a commit, and the working tree as it is now."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.bench.processes import HERE

ROOT = HERE.parents[1]
PACKAGES = ("router", "policies", "adapters")
FLAGS = ("-P",)
"""Without it the interpreter looks for modules in the current folder before those of `PYTHONPATH`."""


class UnknownVersion(Exception):
    """A commit that git does not find, or whose code cannot be run as asked."""


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)


def find_commit(name: str) -> str:
    """The full id of a commit."""
    found = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if found.returncode:
        reason = found.stderr.decode().strip().removeprefix("fatal: ").partition("\n")[0]
        raise UnknownVersion(f'no commit "{name}" in this repository{f" ({reason})" if reason else ""}')
    return found.stdout.decode().strip()


def unpack_commit(commit: str, folder: Path) -> None:
    archive = git("archive", "--format=tar", commit)
    archive.check_returncode()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    check_origin(folder)


def copy_working_tree(folder: Path) -> None:
    """Copy what is tracked or could be, so that edits during the comparison change nothing."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PACKAGES)
    listed.check_returncode()
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    check_origin(folder)


def environment(folder: Path) -> dict[str, str]:
    """What makes an interpreter run the code in `folder`, compiled once.

    The hash seed must differ between starts: with a fixed one a version's luck in how its memory is laid out, some 3 % of
    its CPU time, would be the same at every start and look like a property of its code.
    """
    left_out = ("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED")
    return {**{name: value for name, value in os.environ.items() if name not in left_out}, "PYTHONPATH": str(folder)}


def check_origin(folder: Path) -> None:
    """Make sure that the code in `folder` is what runs, and not an installed copy."""
    script = "import importlib, sys\nfor name in sys.argv[1:]: print(importlib.import_module(name).__file__)"
    names = [name for name in PACKAGES if (folder / name).is_dir()]
    command = [sys.executable, *FLAGS, "-c", script, "router", *names]
    done = subprocess.run(command, env=environment(folder), cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise UnknownVersion(f"the code cannot be imported: {done.stderr.strip().splitlines()[-1]}")
    for origin in done.stdout.splitlines():
        if not Path(origin).is_relative_to(folder):
            raise UnknownVersion(f"the interpreter takes {origin} instead of the version that is compared")
