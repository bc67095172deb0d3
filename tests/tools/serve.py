"""`tandem serve` as a process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(folder: Path, *more: str) -> Iterator[str]:
    """The address of a router with a folder's config."""
    command = [sys.executable, "-m", "router.cli", "serve", "--port", "0", "--log", "json", *more]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True) as server:
        try:
            assert server.stderr is not None
            yield next(json.loads(line) for line in server.stderr if "server.started" in line)["url"]
        finally:
            server.terminate()
            server.stderr.read()
            server.wait(60)
