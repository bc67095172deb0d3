"""Print where Chromium is, for `make test-page`. Installs Debian's where it is missing and this may be done.

Exits with 1 and one line that says why, if there is none: the tests of the page are skipped then.
"""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def install() -> str:
    """Install Debian's Chromium, and return what was in the way; empty if nothing was."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get to install it with"
    if os.geteuid() != 0:
        return "only root may install it: sudo apt install chromium"
    print("Installing Chromium (apt-get)", file=sys.stderr)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        done = subprocess.run(["apt-get", "-qq", *command], env=environment, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"apt-get could not install it: {(done.stderr.strip().splitlines() or ['?'])[-1]}"


def main() -> int:
    problem = "" if find() else install()
    if found := find():
        print(found)
        return 0
    print(f"make test-page: SKIPPED, no Chromium on this machine ({problem or 'apt-get installed none'})", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
