"""A command on a file system that is mounted read-only, in name spaces of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_MOUNT = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$@"'


def run_read_only(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `tandem` in a folder that cannot be written to. Skips where the system does not allow such a mount."""
    alone = ("unshare", "--map-root-user", "--mount")
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no name spaces here")
    command = [*alone, "sh", "-c", _MOUNT, str(folder), sys.executable, "-m", "router.cli", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
