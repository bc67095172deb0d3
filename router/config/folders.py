"""The user's folders. Imports nothing heavy, since the status line runs all the time."""

import os
from pathlib import Path


class NoHome(Exception):
    """The user's folders are unknown."""


def user_folder() -> Path:
    """Raises `NoHome`."""
    return _below_home("XDG_CONFIG_HOME", ".config") / "tandem"


def state_folder() -> Path:
    """Raises `NoHome`."""
    return _below_home("XDG_STATE_HOME", ".local/state") / "tandem"


def _below_home(variable: str, usual: str) -> Path:
    if named := os.environ.get(variable):
        return Path(named)
    try:
        return Path.home() / usual
    except RuntimeError as error:
        raise NoHome(variable) from error
