"""The `tandem` command, installed as a module of its own, `tandem_command`.

A project may have a folder named `router`, `policies` or `adapters`, and `PYTHONPATH=.` is common: `import router` would find
that. So its entries are removed from the path before our imports; clients that we start still get the variable.
"""

import os
import sys


def leave_out_pythonpath(path: list[str], variable: str, folder: str) -> list[str]:
    """The path without the variable's entries. Relative ones begin at `folder`."""
    added = {os.path.normpath(os.path.join(folder, entry)) for entry in variable.split(os.pathsep)} if variable else set()
    return [entry for entry in path if os.path.normpath(os.path.join(folder, entry)) not in added]


def main() -> int:
    if variable := os.environ.get("PYTHONPATH"):
        sys.path[:] = leave_out_pythonpath(sys.path, variable, os.getcwd())
    from router.cli import main as run  # only now: the path decides whose `router` this is

    return run()
