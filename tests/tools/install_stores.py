"""Install Debian's PostgreSQL and a Valkey or Redis server for tests of shared stores. Run by `.ci/run`.

Never fails: without a server these tests are skipped, and say so.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def find_missing() -> dict[str, tuple[str, ...]]:
    """Missing programs, with packages in order of preference."""
    missing: dict[str, tuple[str, ...]] = {}
    if shutil.which("postgres") is None and not any(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        missing["PostgreSQL"] = ("postgresql",)
    if shutil.which("valkey-server") is None and shutil.which("redis-server") is None:
        missing["Valkey"] = ("valkey-server", "redis-server")
    return missing


def install(packages: tuple[str, ...]) -> str:
    """Returns what was in the way; empty on success."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get to install it with"
    if os.geteuid() != 0:
        return f"only root may install it: sudo apt install {packages[-1]}"
    print(f"Installing {' or '.join(packages)} (apt-get)", file=sys.stderr)
    environment, problem = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, ""
    subprocess.run(["apt-get", "-qq", "update"], env=environment, capture_output=True)
    for package in packages:
        command = ["apt-get", "-qq", "install", "--yes", "--no-install-recommends", package]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            return ""
        problem = f"apt-get could not install it: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
    return problem


if __name__ == "__main__":
    for name, packages in find_missing().items():
        if problem := install(packages):
            print(
                f"The tests of what routers share in {name} are SKIPPED, it is not on this machine ({problem})", file=sys.stderr
            )
