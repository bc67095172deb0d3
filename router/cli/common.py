"""Shared by commands: options, the config and its errors, output."""

import argparse
import contextlib
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from router.cli import Ended
from router.cli.figures import plural
from router.cli.routers import find_at, list_running, url_of
from router.config.faults import Fault, Known
from router.config.load import ConfigError, LoadedConfig, find_config, load_config
from router.config.reading import BUILT_IN
from router.contract.words import DEFAULT_DIALECT, Dialect, Tier
from router.telemetry.colour import RED, paint

KEY_VARIABLE = "TANDEM_KEY"
"""In hints and for commands that Tandem runs: the variable with a person's key for the router."""
_PATH = r"^(?:~?|\.{1,2}|[A-Za-z]:)[/\\](?:.*[/\\])?"


def known_names() -> Known:
    from router.wiring import build  # 0.2 s, which commands that only read the ledger save

    return build.known_names()


def add_config_argument(parser: argparse.ArgumentParser, running: str = "that of the running router, ") -> None:
    usual = f"$TANDEM_CONFIG, ./config.yaml, {running}the user's config folder, else simulated tiers"
    parser.add_argument("--config", metavar="FILE", help=f"the config file (default: {usual})")


def add_ledger_switch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-ledger", dest="ledger", action="store_const", const="off", default="on", help="write no record to disk"
    )


def add_json_argument(parser: argparse._ActionsContainer, more: str = "", default: object = False) -> None:
    parser.add_argument("--json", action="store_true", default=default, help=f"print JSON{more}")


def add_yes_argument(parser: argparse._ActionsContainer, more: str = "", default: object = False) -> None:
    parser.add_argument("-y", "--yes", action="store_true", default=default, help=f"do not ask{more}")


def number_between(least: float, most: float) -> Callable[[str], float]:
    """An `argparse` type: a number in this range."""
    return lambda text: _read_number(text, float, least, most)


def whole_number_between(least: int, most: int) -> Callable[[str], int]:
    """An `argparse` type: a whole number in this range."""
    return lambda text: int(_read_number(text, int, least, most))


def _read_number(text: str, kind: Callable[[str], float], least: float, most: float) -> float:
    try:
        if text.isascii() and "_" not in text and least <= (found := kind(text)) <= most:
            return found
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f'"{text}" is not a number from {least:,g} to {most:,g}'.replace(",", ""))


def find_config_in_use(named: str | None, url: str | None = None) -> Path | None:
    """The config of `--config`, of the router at `url`, or of this folder; elsewhere that of a running router.

    With neither, the user's config, or None for the built-in default. Raises `ConfigError`.
    """
    at_url = find_at(url) if url is not None and named is None else None
    if at_url is not None and (at_url.config is None or at_url.config.exists()):
        return at_url.config
    found = find_config(named)
    is_here = named or os.environ.get("TANDEM_CONFIG") or found == Path("config.yaml")
    running = [] if is_here or url is not None else list_running()
    if not running or any(router.config == found for router in running):
        return found
    first, *others = running
    more = "; --config names another: " + ", ".join(str(one.config or BUILT_IN) for one in others) if others else ""
    say(f"using {first.config or BUILT_IN}, of the router at {first.url}{more}")
    return first.config


def load_or_end(path: str | None) -> LoadedConfig:
    """The config that a router would start with. Raises `Ended` with every fault."""
    with explained_faults():
        return load_config(find_config(path), known_names())


def load_in_use(named: str | None, url: str | None = None, *, needs_keys: bool = True) -> LoadedConfig:
    """The config of `find_config_in_use`. Raises `Ended` with every fault.

    A command that calls no target does not need its keys: the router may have been started with them in another shell.
    """
    with explained_faults():
        return load_config(find_config_in_use(named, url), replace(known_names(), needs_keys=needs_keys))


def path_of(loaded: LoadedConfig) -> Path | None:
    """None for the built-in default."""
    return None if loaded.source == BUILT_IN else Path(loaded.source)


def usual_url(loaded: LoadedConfig) -> str:
    server = loaded.config.server
    return url_of(server.host, server.port, is_tls=server.tls is not None)


def url_in_use(loaded: LoadedConfig) -> str:
    """Where a router with this config runs; else where it would."""
    usual, path = usual_url(loaded), path_of(loaded)
    running = [router.url for router in list_running() if router.config == (path and path.absolute())]
    return usual if usual in running or not running else running[0]


@contextlib.contextmanager
def explained_faults() -> Iterator[None]:
    """Turns `ConfigError` into `Ended`."""
    try:
        yield
    except ConfigError as error:
        raise refuse_config(error.source, error.faults) from error


class Reading(NamedTuple):
    """Where the config was found, for reloads."""

    path: Path | None
    named: str | None

    def load(self) -> LoadedConfig:
        """A deleted file is a fault; without a file, one is looked for."""
        return load_config(self.path if self.path is not None else find_config(self.named), known_names())


def refuse_config(source: str, faults: Sequence[Fault]) -> Ended:
    lines = [f"{source}: {plural(len(faults), 'problem')}"]
    for fault in faults:
        path, _, rest = str(fault).partition(": ")
        lines.append(f"{paint(path, RED, sys.stderr)}: {rest}")
    return Ended(2, "\n".join(lines))


def common_dialect(loaded: LoadedConfig) -> Dialect:
    """For examples; the default if the tiers share none."""
    spoken = {tier: {d for plan in loaded.targets if plan.target.tier is tier for d in plan.target.speaks} for tier in Tier}
    shared = spoken[Tier.FAST] & spoken[Tier.DEEP] or spoken[Tier.FAST] | spoken[Tier.DEEP]
    return DEFAULT_DIALECT if DEFAULT_DIALECT in shared else min(shared, default=DEFAULT_DIALECT)


def command_name() -> str:
    """How this command was called, for hints that can be pasted."""
    path = sys.argv[0]
    if os.path.basename(path) not in ("tandem", "__main__.py"):
        return "tandem"
    nearby = os.path.relpath(path)
    # Deeper than `.venv/bin/tandem` is a tool's cache (uvx, pipx).
    is_near = os.sep in path and not nearby.startswith("..") and nearby.count(os.sep) <= 2
    return nearby if is_near and nearby.endswith("tandem") else "tandem"


def init_command() -> str:
    return f"{command_name()} init{' --force' if Path('config.yaml').exists() else ''}"


def print_json(value: object) -> None:
    import orjson

    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def say(text: str) -> None:
    """Print to standard error."""
    print(text, file=sys.stderr)


def free_backup(path: Path) -> Path:
    """`.bak`, or `.bak.1` and so on: a backup is never overwritten."""
    if not (first := path.with_name(f"{path.name}.bak")).exists():
        return first
    numbered = (path.with_name(f"{path.name}.bak.{number}") for number in itertools.count(1))
    return next(backup for backup in numbered if not backup.exists())


def readable(model: str) -> str:
    """A model's name for people. llama.cpp without an alias names its model by path."""
    return re.sub(_PATH, "", model).removesuffix(".gguf") if re.match(_PATH, model) else model
