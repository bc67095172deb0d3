"""Running a client that points here, without touching the person's files."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from router.connect.change import write_for_run
from router.connect.recipe import Facts, Recipe, Run, fill


def run_client(recipe: Recipe, facts: Facts, arguments: list[str]) -> int:
    """Returns the exit status as a shell would. Raises `FileNotFoundError`."""
    program = shutil.which(recipe.command)
    if program is None:
        raise FileNotFoundError(recipe.command)
    with tempfile.TemporaryDirectory(prefix="tandem-") as folder:
        command, added = point(recipe, facts, Path(folder), [program, *arguments])
        return _wait_for(command, {**os.environ, **added})


def point(recipe: Recipe, facts: Facts, folder: Path, command: list[str]) -> tuple[list[str], dict[str, str]]:
    """Files are written into `folder`."""
    run, known = recipe.run or Run(), write_for_run(recipe, facts, folder)
    given = [filled for argument in run.arguments if (filled := fill(argument, known))]
    return [command[0], *given, *command[1:]], {name: fill(value, known) for name, value in run.environment.items()}


def _wait_for(command: list[str], environment: Mapping[str, str]) -> int:
    """Leave Ctrl-C, which the terminal sends to both, to the client.

    The handler does nothing instead of ignoring the signal, which the client would inherit.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda *_: None) if is_main else None
    try:
        code = subprocess.Popen(command, env=environment).wait()  # noqa: S603  the person's command
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)
    return 128 - code if code < 0 else code
