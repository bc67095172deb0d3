"""Where a router's config was found, so that a reload reads the same file."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from router.config.load import LoadedConfig, find_config, load_config
from router.wiring.build import known_names


class Reading(NamedTuple):
    """Where the config was found, so that a reload reads the same file."""

    path: Path | None
    named: str | None
    adapt: Callable[[LoadedConfig], LoadedConfig] = lambda loaded: loaded
    """Adds what is not in the file: what a worker shares with the others."""

    def load(self) -> LoadedConfig:
        """Read it again. A file that was deleted is a fault; without one, there may be one by now."""
        return self.adapt(load_config(self.path if self.path is not None else find_config(self.named), known_names()))
