"""The `tandem` command. It is installed as a module of its own, `tandem_command`, next to the packages.

A project may have folders named `router`, `policies` or `adapters`, and `PYTHONPATH=.` is common: `import router` would find
the project's. So what that variable added to the path is taken out before anything of ours is imported; it stays in the
environment, for the clients that we start.
"""

import os
import sys


def leave_out_pythonpath(path: list[str], variable: str, folder: str) -> list[str]:
    """The path without what the variable put there. `folder` is where we are: relative entries begin there."""
    added = {os.path.normpath(os.path.join(folder, entry)) for entry in variable.split(os.pathsep)} if variable else set()
    return [entry for entry in path if os.path.normpath(os.path.join(folder, entry)) not in added]


def main() -> int:
    if variable := os.environ.get("PYTHONPATH"):
        sys.path[:] = leave_out_pythonpath(sys.path, variable, os.getcwd())
    from router.cli import main as run  # only now: the path decides whose `router` this is

    return run()
