"""Whether another Python on this machine is a faster build than the one that runs this. `make` asks after installing.

A build with profile guidance runs the router with 6 to 12 % less CPU. Most builds say so in their configuration; Debian's
removes it, so what says nothing is timed. Runs with the standard library alone, and in less than half a second.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator

NAMES = ("python3.11", "python3.12", "python3.13", "python3.14", "python3")
PLACES = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
OLDEST = (3, 11)
PATIENCE_SECONDS = 0.35
LEAST_GAIN = 0.15
"""How much less time the other build must take. Versions of Python without profile guidance may differ by more than that here
and do not in the router, so a build that says that it has none is never named."""


def main(goal: str = "setup") -> int:
    """Print the hint, for the goal of `make` that was asked for."""
    mine = probe()
    if not mine["is_optimised"] and (found := find_faster(mine, others())):
        print(f"hint: {found} is an optimised build, about 15 % faster: rm -rf .venv && make {goal} PYTHON={found}")
    return 0


def find_faster(mine: dict, candidates: Iterable[str]) -> "str | None":
    """The first interpreter that Tandem can run on and that is clearly faster than this one."""
    until = time.monotonic() + PATIENCE_SECONDS
    for path in candidates:
        if time.monotonic() > until:
            return None
        theirs = ask(path)
        if theirs and theirs["is_usable"] and theirs["seconds"] and theirs["seconds"] < mine["seconds"] * (1 - LEAST_GAIN):
            return path
    return None


def others() -> Iterator[str]:
    """The other interpreters of this machine, each once. Scripts are left out: shims of a version manager are slow to ask."""
    seen = {os.path.realpath(sys.executable)}
    folders = os.pathsep.join([os.environ.get("PATH", ""), *PLACES])
    for name in NAMES:
        for folder in folders.split(os.pathsep):
            if not folder or (sys.platform == "darwin" and folder == "/usr/bin"):
                continue  # macOS keeps a placeholder there, which asks the user to install Apple's tools
            path = shutil.which(name, path=folder)
            if path and (real := os.path.realpath(path)) not in seen:
                seen.add(real)
                if not is_script(real):
                    yield path


def is_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def ask(path: str) -> "dict | None":
    """What another interpreter says of itself; None if it is too old even to read this file, or too slow."""
    try:
        done = subprocess.run([path, "-I", __file__, "--probe"], capture_output=True, timeout=PATIENCE_SECONDS, check=True)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def probe() -> dict:
    """This interpreter: whether it was optimised (None if it does not say), whether Tandem can run on it, and how fast it is."""
    is_optimised = says_optimised(sysconfig.get_config_vars())
    return {
        "is_optimised": is_optimised,
        "is_usable": sys.version_info >= OLDEST and can_make_environments(),
        "seconds": None if is_optimised is False and "--probe" in sys.argv else best_seconds(),
    }


def says_optimised(configured: dict) -> "bool | None":
    """What the build's configuration tells of profile guidance."""
    if "--enable-optimizations" in str(configured.get("CONFIG_ARGS")):
        return True
    # `configure` always names the flag, used or not. Debian and its kin take all traces of guidance out of what they install.
    return False if configured.get("PGO_PROF_USE_FLAG") else None


def can_make_environments() -> bool:
    """Debian splits these off into packages of their own."""
    try:
        import ensurepip

        return bool(ensurepip.version()) and all(map(importlib.util.find_spec, ("venv", "_sqlite3", "_ssl")))
    except Exception:
        return False


class Turn:
    """Something to make, to read and to weigh, as requests are."""

    __slots__ = ("size", "words")

    def __init__(self, words: "list[str]", size: int) -> None:
        self.words, self.size = words, size

    def weigh(self, table: "dict[str, int]") -> int:
        return sum([table.get(word, 0) for word in self.words]) + self.size


def best_seconds() -> float:
    """CPU time for a little work of the router's kind. The best of several is steady to a few percent, on a busy machine too."""
    return min(map(work_seconds, range(12)))


def work_seconds(_: int) -> float:
    text = "please fix the parser in src/app.py and add tests for it"
    table = {word: number for number, word in enumerate(text.split())}
    began = time.process_time()
    for number in range(400):
        weight = Turn(text.split(), number).weigh(table)
        for word, value in table.items():
            if value & 1 and word.startswith("p"):
                weight -= value
    return time.process_time() - began


if __name__ == "__main__":
    if "--probe" in sys.argv:
        print(json.dumps(probe()))
    else:
        sys.exit(main(*sys.argv[1:2]))
