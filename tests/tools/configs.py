"""A config's text, checked as a router would, and its faults."""

from pathlib import Path

import pytest

from router.config.faults import ConfigError, Fault
from router.config.load import LoadedConfig, check_config
from router.wiring.build import known_names


def load_text(text: str, folder: Path = Path(".")) -> LoadedConfig:
    return check_config(text, "test", folder, known_names())


def faults_in(text: str, folder: Path = Path(".")) -> list[Fault]:
    with pytest.raises(ConfigError) as caught:
        load_text(text, folder)
    return caught.value.faults
