"""What commands share: finding the config, and saying what is wrong with it."""

import argparse
import itertools
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from router.cli import Ended
from router.config.faults import Fault, Known
from router.config.load import ConfigError, LoadedConfig, find_config, load_config
from router.contract.words import DEFAULT_DIALECT, Dialect, Tier
from router.screen.figures import plural
from router.telemetry.colour import RED, paint

_PATH = r"^(?:~?|\.{1,2}|[A-Za-z]:)[/\\](?:.*[/\\])?"


def known_names() -> Known:
    """What a config may name."""
    from router.wiring import build  # it brings every room: 0.2 s that a command which only reads the ledger need not wait for

    return build.known_names()


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the config file (default: $TANDEM_CONFIG, ./config.yaml, the user's config folder, else simulated tiers)",
    )


def add_ledger_switch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-ledger", dest="ledger", action="store_const", const="off", default="on", help="write no record to disk"
    )
    add_old_option(parser, "--ledger", "ledger", choices=("on", "off"))


def add_json_argument(parser: argparse._ActionsContainer, more: str = "", default: object = False) -> None:
    parser.add_argument("--json", action="store_true", default=default, help=f"print JSON{more}")


def add_yes_argument(parser: argparse._ActionsContainer, more: str = "", default: object = False) -> None:
    parser.add_argument("-y", "--yes", action="store_true", default=default, help=f"do not ask{more}")


def add_old_option(parser: argparse._ActionsContainer, old: str, dest: str, **given: Any) -> None:
    """The former name of an option. It works until the next release, and no help shows it."""
    parser.add_argument(old, dest=dest, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **given)


def add_timeout_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        type=number_between(0.1, 600),
        default=10.0,
        metavar="SECONDS",
        help="how long each target may take (default: %(default)g)",
    )


def number_between(least: float, most: float) -> Callable[[str], float]:
    """A type for `argparse`: a number in this range."""
    return lambda text: _read_number(text, float, least, most)


def whole_number_between(least: int, most: int) -> Callable[[str], int]:
    """The same without a fraction."""
    return lambda text: int(_read_number(text, int, least, most))


def _read_number(text: str, kind: Callable[[str], float], least: float, most: float) -> float:
    try:
        if text.isascii() and "_" not in text and least <= (found := kind(text)) <= most:
            return found
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f'"{text}" is not a number from {least:,g} to {most:,g}'.replace(",", ""))


def load_or_end(path: str | None) -> LoadedConfig:
    """The config. Raises `Ended` with every fault."""
    try:
        return load_config(find_config(path), known_names())
    except ConfigError as error:
        raise refuse_config(error.source, error.faults) from error


class Reading(NamedTuple):
    """Where the config was found, so that a reload reads the same file."""

    path: Path | None
    named: str | None
    adapt: Callable[[LoadedConfig], LoadedConfig] = lambda loaded: loaded
    """Adds what is not in the file: what a worker shares with the others."""

    def load(self) -> LoadedConfig:
        """Read it again. A file that was deleted is a fault; without one, there may be one by now."""
        return self.adapt(load_config(self.path if self.path is not None else find_config(self.named), known_names()))


def refuse_config(source: str, faults: Sequence[Fault]) -> Ended:
    """Every fault of a config, with its hint."""
    lines = [f"{source}: {plural(len(faults), 'problem')}"]
    for fault in faults:
        path, _, rest = str(fault).partition(": ")
        lines.append(f"{paint(path, RED, sys.stderr)}: {rest}")
    return Ended(2, "\n".join(lines))


def common_dialect(loaded: LoadedConfig) -> Dialect:
    """A dialect that both tiers speak, for examples; the default if they share none."""
    spoken = {tier: {d for plan in loaded.targets if plan.target.tier is tier for d in plan.target.speaks} for tier in Tier}
    shared = spoken[Tier.FAST] & spoken[Tier.DEEP] or spoken[Tier.FAST] | spoken[Tier.DEEP]
    return DEFAULT_DIALECT if DEFAULT_DIALECT in shared else min(shared, default=DEFAULT_DIALECT)


def command_name() -> str:
    """How this command was called, so that hints can be pasted into a shell."""
    path = sys.argv[0]
    if os.path.basename(path) not in ("tandem", "__main__.py"):
        return "tandem"
    nearby = os.path.relpath(path)
    # Deeper than `.venv/bin/tandem` is a tool's own cache (uvx, pipx), which is no path to type.
    is_near = os.sep in path and not nearby.startswith("..") and nearby.count(os.sep) <= 2
    return nearby if is_near and nearby.endswith("tandem") else "tandem"


def init_command() -> str:
    """The command that writes a config here, with `--force` if there already is one."""
    return f"{command_name()} init{' --force' if Path('config.yaml').exists() else ''}"


def rounded(value: float | None) -> float | None:
    """A share or a score as JSON has it."""
    return None if value is None else round(value, 4)


def table_path(loaded: LoadedConfig) -> Path | None:
    """Where the trained reading looks for the personal table."""
    named = next((found for _, settings in loaded.policies if (found := getattr(settings, "personal", ""))), "")
    return Path(named) if named else None


def print_json(value: object) -> None:
    """Data for a program, on standard output."""
    import orjson  # only where it is asked for

    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def say(text: str) -> None:
    """A line for a person, on standard error."""
    print(text, file=sys.stderr)


def free_backup(path: Path) -> Path:
    """`.bak`, or `.bak.1` and so on if that exists: an older backup is never overwritten."""
    if not (first := path.with_name(f"{path.name}.bak")).exists():
        return first
    numbered = (path.with_name(f"{path.name}.bak.{number}") for number in itertools.count(1))
    return next(backup for backup in numbered if not backup.exists())


def readable(model: str) -> str:
    """A model's name for people: of a path, the name of its file. llama.cpp without an alias names its model by path."""
    return re.sub(_PATH, "", model).removesuffix(".gguf") if re.match(_PATH, model) else model
