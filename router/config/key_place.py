"""Where the keys of a config are, for commands that change or list them: targets and their own keys are not checked."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from router.config.faults import Known
from router.config.load import check_config
from router.config.models import Config, KeysSettings
from router.config.parsing import parse
from router.config.reading import expand, read_config


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A file of keys, which need not exist yet, and what its config says around it."""

    path: Path
    config: Config
    config_path: Path
    folder: Path

    @property
    def is_asked_for(self) -> bool:
        """Whether the config has `keys:`, so that callers need one."""
        return self.config.keys is not None

    @property
    def ledger_path(self) -> Path | None:
        path = self.config.ledger.path
        return self.folder / expand(path) if path else None


def find_keys(config_path: Path, known: Callable[[], Known]) -> KeyPlace:
    """The place of the keys; next to the config where it does not name one. Raises `ConfigError`.

    The known names are asked for only where something is wrong with the config.
    """
    text, source, folder = read_config(config_path)
    try:
        config = Config.model_validate(parse(text, source))
    except ValidationError:
        config = check_config(text, source, folder, known()).config  # which raises all that is wrong
    return KeyPlace(folder / expand((config.keys or KeysSettings()).file), config, config_path, folder)
