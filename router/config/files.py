"""The files of a config and the prices in it, for commands that need neither keys nor targets: those are not checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from router.config.faults import Known
from router.config.load import check_config, keys_path_of, ledger_path_of
from router.config.models import Config
from router.config.parsing import parse
from router.config.reading import expand, read_config
from router.config.removed import without_removed


@dataclass(frozen=True, slots=True)
class KeyPlace:
    path: Path
    config: Config
    config_path: Path
    folder: Path

    @property
    def is_asked_for(self) -> bool:
        return self.config.keys is not None

    @property
    def ledger_path(self) -> Path | None:
        return ledger_path_of(self.config, self.folder)


def find_keys(config_path: Path, known: Callable[[], Known]) -> KeyPlace:
    """By default next to the config. Raises `ConfigError`."""
    config, folder = _load_shape(config_path, known)
    return KeyPlace(keys_path_of(config, folder), config, config_path, folder)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a config, whether they exist or not."""

    config: Path | None
    folder: Path
    ledger: Path | None
    store: Path | None
    keys: Path
    policies: tuple[Path, ...]
    """The operator's own."""


def find_files(path: Path | None, known: Callable[[], Known]) -> Files:
    """Raises `ConfigError`."""
    config, folder = _load_shape(path, known)
    blocks = [block for block in config.policies if isinstance(block, Mapping)]
    own = tuple(folder / expand(str(block["file"])) for block in blocks if block.get("file"))
    store = folder / expand(config.store.path) if config.store.path else None
    return Files(path, folder, ledger_path_of(config, folder), store, keys_path_of(config, folder), own)


def load_ledger_path(path: Path | None, known: Callable[[], Known]) -> Path | None:
    """Raises `ConfigError`."""
    return ledger_path_of(*_load_shape(path, known))


def _load_shape(path: Path | None, known: Callable[[], Known]) -> tuple[Config, Path]:
    """Raises `ConfigError`; only then are the known names needed."""
    text, source, folder = read_config(path)
    try:
        return Config.model_validate(without_removed(parse(text, source))[0]), folder
    except ValidationError:
        return check_config(text, source, folder, known()).config, folder  # raises all faults
