"""What commands share: finding the config, and saying what is wrong with it."""

import argparse
import sys

from router.config.load import ConfigError, LoadedConfig, find_config, load_config
from router.wiring import known_names


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    """`--config`."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the config file (default: $TANDEM_CONFIG, ./config.yaml, the user's config folder, else simulated tiers)",
    )


def load_or_report(path: str | None) -> LoadedConfig | None:
    """The config, or None after every fault was printed."""
    try:
        return load_config(find_config(path), known_names())
    except ConfigError as error:
        complain(f"{error}")
        for fault in error.faults:
            complain(str(fault))
        return None


def complain(text: str) -> None:
    """A line for a person, beside the data."""
    print(text, file=sys.stderr)
