"""Routers of two releases that share their stores, as while a fleet is upgraded: any trial of several routers, with both.

`python -m tests.faults.two_releases` runs the trials of shared jobs with every second router from the commit before the last
migration of the shared database. Another trial, another commit, or a time for which the trials are repeated:

    python -m tests.faults.two_releases --before v0.3.0 --seconds 600 "tests.faults.test_shared_jobs streams 40"

It needs git, and fails where a trial does.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.tools.fleet import OLDER_CHECKOUT

ROOT = Path(__file__).resolve().parents[2]
MIGRATIONS = "router/stores/postgres/migrations"
TRIALS = (
    "tests.faults.test_shared_jobs kills 30 3",
    "tests.faults.test_shared_jobs streams 20",
    "tests.faults.test_shared_jobs cancels 20",
)


def ask_git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def find_before() -> str:
    """The commit before the last change of the shared database's scripts."""
    return ask_git("rev-parse", ask_git("log", "-1", "--format=%H", "--", MIGRATIONS) + "^")


def check_out(commit: str, folder: Path) -> None:
    """Extract a commit, and report what differs in the database."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    found = subprocess.run(
        [sys.executable, "-c", "import router; print(router.__file__)"], cwd=folder, check=True, capture_output=True, text=True
    )
    assert Path(found.stdout.strip()).is_relative_to(folder), "the older code is not what runs there"
    older, newer = (sorted(path.name for path in (place / MIGRATIONS).glob("*.sql")) for place in (folder, ROOT))
    assert older, f"{commit[:12]} shares nothing: name a newer commit with --before"
    print(f"older: {commit[:12]}, migrations {', '.join(older)}; newer: {', '.join(newer)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="COMMIT", help="the older release (default: the commit before the last migration)")
    parser.add_argument("--seconds", type=float, default=0.0, help="repeat the trials until this much time has passed")
    parser.add_argument("trials", nargs="*", default=TRIALS, metavar="TRIAL", help="a module of tests, with its arguments")
    arguments = parser.parse_args()
    began, failed = time.monotonic(), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        check_out(arguments.before or find_before(), Path(folder))
        rounds = 0
        while not rounds or time.monotonic() - began < arguments.seconds:
            rounds += 1
            for trial in arguments.trials:
                print(f"round {rounds}: {trial}", flush=True)
                command = [sys.executable, "-m", *trial.split()]
                if subprocess.run(command, cwd=ROOT, env={**os.environ, OLDER_CHECKOUT: folder}).returncode:
                    failed.append(f"round {rounds}: {trial}")
    print(f"{rounds} rounds in {time.monotonic() - began:.0f} s, failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
